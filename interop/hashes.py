# SPDX-License-Identifier: GPL-2.0-or-later
"""BLAKE3, and the hashes of a stream that docs/lsl.md (sections 8 and 9) needs. Needs Python 3.11 and numpy.

Arrays have a column for each chunk, or parent of two subtrees, that is computed at the same time.
"""
import hashlib

import numpy as np

GROUP = 262144
DIGESTS = {b"\1": "sha256", b"\2": "md5"}

IV = np.array([0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19], "<u4")
ORDER = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]  # of the words as the rounds use them, four at a time
NEXT = [1, 5, 7, 2, 3, 9, 0, 14, 4, 10, 12, 15, 13, 6, 11, 8]  # of these, for the next round
LEFT, ACROSS, RIGHT = [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]
CHUNK_START, CHUNK_END, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = 1, 2, 4, 8, 16, 32, 64

def rotate(words, bits):
    return words >> np.uint32(bits) | words << np.uint32(32 - bits)

def compress(state, words, counter, length, flags):
    a, b, c, d = state[:4], state[4:], np.repeat(IV[:4, None], state.shape[1], 1), np.empty_like(state[:4])
    d[0], d[1], d[2], d[3] = counter & 0xFFFFFFFF, counter >> 32, length, flags
    words = words[ORDER]
    for _ in range(7):
        for half, there, back in ((0, LEFT, RIGHT), (8, RIGHT, LEFT)):  # columns, then diagonals
            for at, bits_d, bits_b in ((half, 16, 12), (half + 4, 8, 7)):
                a = a + b + words[at:at + 4]
                d = rotate(d ^ a, bits_d)
                c = c + d
                b = rotate(b ^ c, bits_b)
            b, c, d = b[there], c[ACROSS], d[back]
        words = words[NEXT]
    return np.concatenate((a ^ c, b ^ d))

def leaves(data, chunk, key, flags, root):
    """The chaining values of the chunks of `data`, the first of which has the number `chunk`, as columns."""
    count = max(1, -(-len(data) // 1024))
    words = np.frombuffer(bytes(data).ljust(count * 1024, b"\0"), "<u4").reshape(count, 16, 16)
    state, numbers = np.repeat(key[:, None], count, 1), np.arange(count, dtype=np.int64)
    for start in range(0, min(1024, len(data)) or 1, 64):
        left = np.minimum(1024, len(data) - 1024 * numbers) - start  # of each chunk
        bits = flags | (CHUNK_START if start == 0 else 0) | np.where(left <= 64, CHUNK_END | root, 0)
        after = compress(state, words[:, start // 64].T, numbers + chunk, np.minimum(left, 64), bits)
        state = np.where((left > 0) | (start == 0), after, state)
    return state

def merge(values, key=IV, flags=0, root=0):
    """The one node above these columns; of an odd number the last goes up a level as it is."""
    while (count := values.shape[1]) > 1:
        pairs = np.concatenate((values[:, 0:count - count % 2:2], values[:, 1::2]))
        bits = flags | PARENT | (root if count == 2 else 0)
        parents = compress(np.repeat(key[:, None], count // 2, 1), pairs, 0, 64, bits)
        values = np.concatenate((parents, values[:, count - count % 2:]), 1)
    return values.astype("<u4").tobytes()

def blake3(data, chunk=0, key=IV.tobytes(), flags=0, root=ROOT):
    """With root 0 the chaining value of a subtree that begins with the chunk of that number."""
    key = np.frombuffer(key, "<u4")
    return merge(leaves(data, chunk, key, flags, root if len(data) <= 1024 else 0), key, flags, root)

def derive_key(context, data):
    return blake3(data, key=blake3(context, flags=CONTEXT), flags=MATERIAL)

def join(values, root=0):
    """The node above these subtrees, as many chunks each; the last one may be smaller."""
    return merge(np.frombuffer(b"".join(values), "<u4").reshape(-1, 8).T, root=root)


class Stream:
    """The bytes of one direction, in a file, and the chaining values of whole groups once they are computed."""
    def __init__(self, file):
        self.file, self.size, self.values = file, file.seek(0, 2), {}

    def read(self, start, end):
        self.file.seek(start)
        return self.file.read(end - start)

    def value(self, end):
        """Of the group that ends at `end`, or is cut off there."""
        start = (end - 1) // GROUP * GROUP
        value = self.values.get(end) or blake3(self.read(start, end), start // 1024, root=0)
        if end % GROUP == 0:
            self.values[end] = value
        return value

    def join(self, start, end, root=0):
        return join([self.value(min(at, end)) for at in range(start + GROUP, end + GROUP, GROUP)], root)

    def position(self, size):
        """8.4"""
        values, at = b"", 0
        for length in (1 << bit for bit in reversed(range(18, 48))):
            if max(0, size - 1) & length:
                values += self.join(at, at + length)
                at += length
        return size.to_bytes(8, "big") + values + (self.value(size) if size else b"")

    def whole(self):
        """Length and hash, as in FIN and DONE."""
        whole = self.join(0, self.size, ROOT) if self.size > GROUP else blake3(self.read(0, self.size))
        return self.size.to_bytes(8, "big") + whole

    def digest(self, kind):
        self.file.seek(0)
        return hashlib.file_digest(self.file, DIGESTS[kind]).digest() if kind else b""
