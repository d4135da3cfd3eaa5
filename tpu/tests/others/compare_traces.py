#!/usr/bin/env python3
"""Compares two Perfetto traces by what SQL sees: tracks, slices, arguments, counters. Prints differences, exits 1.

Needs the package `perfetto` (its message definitions only), which bigTpuProfile brings. Usage: A B
"""
import collections
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def load(path):
    trace = Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    described = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            t = packet.track_descriptor
            described[t.uuid] = (t.name, t.parent_uuid, t.child_ordering, t.sibling_order_rank, t.HasField("counter"))

    def name_of(track):
        name, parent = described[track][:2]
        return (name_of(parent) if parent else ()) + (name,)

    texts = collections.defaultdict(lambda: [{}, {}, {}, {}])
    events = collections.defaultdict(list)
    # The track of a sequence's events that name none.
    usual = {}
    for packet in trace.packet:
        categories, names, keys, values = texts[packet.trusted_packet_sequence_id]
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults.track_event_defaults
            usual[packet.trusted_packet_sequence_id] = defaults.track_uuid
        interned = packet.interned_data
        for table, entries in ((categories, interned.event_categories), (names, interned.event_names),
                               (keys, interned.debug_annotation_names)):
            table.update((entry.iid, entry.name) for entry in entries)
        values.update((entry.iid, entry.str.decode()) for entry in interned.debug_annotation_string_values)
        if not packet.HasField("track_event"):
            continue

        def value(arg):
            kind = arg.WhichOneof("value")
            if kind == "string_value_iid":
                return "string_value", values[arg.string_value_iid]
            if kind is None:
                return tuple(sorted((key(entry), value(entry)) for entry in arg.dict_entries))
            return kind, getattr(arg, kind)

        def key(arg):
            return arg.name or keys[arg.name_iid]

        event = packet.track_event
        categories_of = tuple(event.categories) + tuple(categories[iid] for iid in event.category_iids)
        track = event.track_uuid or usual[packet.trusted_packet_sequence_id]
        events[name_of(track)].append((
            packet.timestamp,
            event.type,
            event.name or (names[event.name_iid] if event.name_iid else ""),
            # The end of a slice needs no category: it ends the slice that began last.
            () if event.type == TrackEvent.TYPE_SLICE_END else categories_of,
            {key(arg): value(arg) for arg in event.debug_annotations},
            event.double_counter_value or event.counter_value,
        ))
    return {name_of(track): rest[2:] for track, rest in described.items()}, events


def main(first, second):
    (tracks_a, events_a), (tracks_b, events_b) = load(first), load(second)
    # Layers are ours alone.
    for name in [n for n in {**tracks_b, **events_b} if n[-1].startswith("Layers")]:
        tracks_b.pop(name, None)
        events_b.pop(name, None)
    found = ["tracks: %s" % (set(tracks_a.items()) ^ set(tracks_b.items()))] if tracks_a != tracks_b else []
    count = 0
    for name in sorted(set(events_a) | set(events_b)):
        a, b = events_a[name], events_b[name]
        if len(a) != len(b):
            found.append(f"{name}: {len(a)} and {len(b)} events")
        count += len(a)
        found += [f"{name}: {x} and {y}" for x, y in zip(a, b) if x != y]
    for line in found[:5]:
        print(line)
    print(f"{count} events, {len(found)} differences")
    return 1 if found or not count else 0


sys.exit(main(*sys.argv[1:]))
