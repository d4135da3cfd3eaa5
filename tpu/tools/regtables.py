#!/usr/bin/env python3
"""Writes src/chip/regs/*.txt, the bit layouts of the TPUs' commands, from an installed bigTpuProfile.

The layouts are facts about the chips, published by Sophgo under the 2-clause BSD licence in that package
(which made them from the chips' register manuals). Run it with the Python of an environment that has
bigTpuProfile 0.3.7; the tables are committed, so nobody needs this to build.

Format: `op ENGINE BITS NAME`, then tab-led lines `key SHORT OPCODE FUNCTION NAME` (which command words select
the op, and what it is called then) and `f NAME:WIDTH …` (fields from bit 0 up; `@BIT` where there is a hole).
Fields with a blank in their name have it written as `~`.
"""
import json
import pathlib
import sys

from bigTpuProfile.profile_helper import chip_registry

OUT = pathlib.Path(__file__).resolve().parent.parent / "src" / "chip" / "regs"


def bits(cls, name):
    field = getattr(cls, name)
    width, low = field.size >> 16, field.size & 0xFFFF
    if width == 0:
        width, low = field.size * 8, 0
    return field.offset * 8 + low, width


def table(chip):
    decoder = chip_registry.load_chip_profile_by_name(chip).BDCommandParser().ctx.decoder
    module = sys.modules[type(decoder).__module__]
    layouts = getattr(decoder, "op_class_dic", None) or module.op_class_dic
    lines = [f"# {chip}: made by tools/regtables.py from bigTpuProfile 0.3.7 (2-clause BSD, Sophgo)"]
    seen = set()
    for engine in ("tiu", "dma", "cdma"):
        keys = {}
        for (short, opcode, function), op in getattr(module, f"{engine}_index", None).storage.items() if hasattr(
            module, f"{engine}_index"
        ) else ():
            names = op.eu_type if engine == "tiu" else op.sp_fun
            keys.setdefault(op.name, set()).add((2 if short is None else int(short), opcode, function, names[function]))
        for name in sorted(keys):
            if name not in layouts or name in seen:
                continue
            seen.add(name)
            cls = layouts[name]
            lines.append(f"op {engine} {cls.length} {name.strip()}")
            lines += ["\tkey %d %d %d %s" % k for k in sorted(keys[name])]
            row, at, expected, names = "\tf", 0, 0, set()
            for field, _, width in cls._fields_:
                low, last_width = bits(cls, field)
                # A name given twice means its last place, listed where it stood first.
                if field not in names:
                    item = " %s:%d%s" % (field.replace(" ", "~"), last_width, "" if low == expected else "@%d" % low)
                    if len(row) + len(item) > 118:
                        lines.append(row)
                        row = "\tf"
                    row += item
                    expected = low + last_width
                names.add(field)
                at += width
            assert at <= cls.length, (chip, name, at, cls.length)
            lines.append(row)
    return "\n".join(lines) + "\n"


def rvt():
    path = pathlib.Path(chip_registry.__file__).with_name("rvt_profile_index_cv84x6.json")
    index = json.loads(path.read_text())
    lines = ["# CV84X6: names of the instructions that RVT nodes stand for: function, its name, variant, its name"]
    for function, name in sorted(index["functions"].items(), key=lambda kv: int(kv[0])):
        lines.append(f"{function} {name}")
        for variant, insn in sorted(index["variants"].get(function, {}).items(), key=lambda kv: int(kv[0])):
            lines.append(f"\t{variant} {insn}")
    return "\n".join(lines) + "\n"


for chip in ("AKS", "AKSV", "BM1688", "CV84X6"):
    (OUT / f"{chip.lower()}.txt").write_text(table(chip), encoding="utf-8")
(OUT / "rvt_cv84x6.txt").write_text(rvt(), encoding="utf-8")
