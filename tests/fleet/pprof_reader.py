"""pprof files as a stranger reads them: gzip and protobuf by hand. Shares no code with what writes them.

    profile = Profile(bytes)
    profile.sum("inuse_space")                      of all samples
    profile.sum("alloc_objects", leaf="main")       of those whose innermost function that is
"""
import gzip


def fields(data):
    """(number, value) of each field of a message; value: int, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        elif kind == 2:
            length = varint()
            if at + length > len(data):
                raise ValueError("a field is longer than its message")
            yield key >> 3, data[at : at + length]
            at += length
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield key >> 3, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise ValueError("wire type %d" % kind)


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value & 0xFFFFFFFFFFFFFFFF
            value = shift = 0


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def numbers(values):
    """A repeated number, packed or not."""
    for value in values:
        if isinstance(value, int):
            yield value
        else:
            yield from varints(value)


def grouped(data):
    out = {}
    for number, value in fields(data):
        out.setdefault(number, []).append(value)
    return out


class Sample:
    def __init__(self, stack, addresses, values, labels):
        self.stack, self.addresses, self.values, self.labels = stack, addresses, values, labels


class Profile:
    def __init__(self, data, gzipped=True):
        if gzipped:
            data = gzip.decompress(data)
        self.bytes = len(data)
        top = grouped(data)
        self.strings = [text.decode("utf-8") for text in top.get(6, [])]  # bad UTF-8 raises
        assert self.strings[0] == ""

        def one(message, number, default=0):
            return message.get(number, [default])[-1]

        def text(index):
            return self.strings[index]

        def value_type(data):
            message = grouped(data)
            return "%s/%s" % (text(one(message, 1)), text(one(message, 2)))

        self.types = [value_type(data) for data in top.get(1, [])]
        self.default_type = text(one(top, 14))
        self.time_nanos, self.duration_nanos = one(top, 9), one(top, 10)
        self.period_type = value_type(one(top, 11, b""))
        self.period = one(top, 12)
        self.comments = [text(index) for index in numbers(top.get(13, []))]
        functions = {}
        for data in top.get(5, []):
            message = grouped(data)
            functions[one(message, 1)] = text(one(message, 2))
        mappings = [one(grouped(data), 1) for data in top.get(3, [])]
        assert mappings == list(range(1, len(mappings) + 1)), "ids of mappings"
        locations = {}
        for data in top.get(4, []):
            message = grouped(data)
            names = [functions[one(grouped(line), 1)] for line in message.get(4, [])]
            locations[one(message, 1)] = (one(message, 3), names)
        assert sorted(locations) == list(range(1, len(locations) + 1)), "ids of locations"
        self.samples = []
        for data in top.get(2, []):
            message = grouped(data)
            stack, addresses, labels = [], [], {}
            for location in numbers(message.get(1, [])):
                addresses.append(locations[location][0])
                stack += locations[location][1]
            for data in message.get(3, []):
                label = grouped(data)
                labels[text(one(label, 1))] = text(one(label, 2)) or one(label, 3)
            values = [signed(value) for value in numbers(message.get(2, []))]
            assert len(values) == len(self.types)
            self.samples.append(Sample(stack, addresses, values, labels))

    def column(self, name):
        return [kind.split("/")[0] for kind in self.types].index(name)

    def sum(self, name, leaf=None, having=None):
        column = self.column(name)
        return sum(
            sample.values[column]
            for sample in self.samples
            if (leaf is None or sample.stack[:1] == [leaf]) and (having is None or having in sample.stack)
        )

    def comment(self, key):
        for comment in self.comments:
            if comment.startswith(key + ": "):
                return comment[len(key) + 2 :]
        return None
