#!/usr/bin/env python3
"""Compares the engine sheets of two workbooks. Usage: THEIRS OURS; prints differences, exits 1.

Every cell of theirs must stand at the same place in ours, which may have further columns to the right. Not compared:
names of the chip's description and notes (rows 1 to 5 from column O on and row 5), Start and End where `--times-differ`.
"""
import re
import sys
import zipfile
from xml.etree import ElementTree

NAMES = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def sheets(path):
    book = zipfile.ZipFile(path)

    def tree(name):
        return ElementTree.fromstring(book.read(name))

    texts = []
    if "xl/sharedStrings.xml" in book.namelist():
        for item in tree("xl/sharedStrings.xml").findall("m:si", NAMES):
            texts.append("".join(item.itertext()))
    targets = {r.get("Id"): r.get("Target") for r in tree("xl/_rels/workbook.xml.rels")}
    found = {}
    for sheet in tree("xl/workbook.xml").find("m:sheets", NAMES):
        cells = {}
        for cell in tree("xl/" + targets[sheet.get(RELATION)]).iter("{%s}c" % NAMES["m"]):
            value = cell.find("m:v", NAMES)
            kind = cell.get("t")
            if kind == "inlineStr":
                text = "".join(cell.find("m:is", NAMES).itertext())
            elif value is None:
                continue
            elif kind == "s":
                text = texts[int(value.text)]
            else:
                text = value.text if kind == "str" else float(value.text)
            if text != "":
                cells[place(cell.get("r"))] = text
        found[sheet.get("name")] = cells
    return found


def place(reference):
    letters, row = re.fullmatch(r"([A-Z]+)(\d+)", reference).groups()
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - 64
    return int(row), column


def main(first, second):
    theirs, ours = sheets(first), sheets(second)
    count, found = 0, []
    for name, cells in theirs.items():
        if not re.fullmatch(r"(TIU|GDMA|SDMA|CDMA)_\d+", name):
            continue
        if name not in ours:
            found.append(f"{name}: no such sheet")
            continue
        mine = ours[name]
        for at, value in cells.items():
            if at[0] == 5 or at[1] >= 15 and at[0] in (4, 6, 7):
                continue
            count += 1
            here = mine.get(at)
            if here != value and not (same_number(here, value) or (here is None and value in ("", " "))):
                found.append(f"{name} row {at[0]} column {at[1]}: {value!r} and {here!r}")
    for line in found[:8]:
        print(line)
    print(f"{count} cells, {len(found)} differences")
    return 1 if found or not count else 0


def same_number(a, b):
    try:
        return abs(float(a) - float(b)) < 1e-9
    except (TypeError, ValueError):
        return False


sys.exit(main(*sys.argv[1:]))
