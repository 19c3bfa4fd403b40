"""XXH3, 64 bits: the hash by which a consumer group notices that its topics have changed.

XXH3 (seed 0) has a formula for each of four lengths; ``mix`` multiplies two words to 128 bits and folds the halves::

    0 to 16 bytes     one or two words, each combined with the secret, then an avalanche that mixes high and low bits
    17 to 128 bytes   pairs of 16-byte blocks, one from each end towards the middle, summed up with `mix`
    129 to 240 bytes  16-byte blocks in order, likewise
    from 241 bytes    stripes of 64 bytes are added to eight accumulators, which are scrambled after 16 stripes

The secret is 192 bytes that the algorithm fixes. All words are little-endian, all sums are modulo 2**64.

The group's record holds the hash, so ours must equal Kafka's: otherwise a group that moves from a Kafka broker to ours
would rebalance for nothing. The hash is only computed when topics change, so Python is fast enough.

Follows the XXH3 specification of xxHash 0.8, as com.dynatrace.hash4j (Kafka's dependency) implements it.
"""

import struct

_M64 = (1 << 64) - 1
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_PRIME_MX1 = 0x165667919E3779F9
_PRIME_MX2 = 0x9FB21C651E98DF25

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_STRIPE = struct.Struct("<8Q")
_STRIPE_BYTES = 64
_SECRET_STEP = 8
_STRIPES_A_BLOCK = (len(SECRET) - _STRIPE_BYTES) // _SECRET_STEP
_LAST_STRIPE_SECRET = len(SECRET) - _STRIPE_BYTES - 7
_SCRAMBLE_KEYS = _STRIPE.unpack_from(SECRET, len(SECRET) - _STRIPE_BYTES)
_STRIPE_KEYS = [_STRIPE.unpack_from(SECRET, _SECRET_STEP * n) for n in range(_STRIPES_A_BLOCK)]


def xxh3_64(data: bytes) -> int:
    """The hash as an unsigned number of 64 bits."""
    length = len(data)
    if length <= 16:
        return _hash_to_16(data, length)
    if length <= 128:
        return _hash_to_128(data, length)
    if length <= 240:
        return _hash_to_240(data, length)
    return _hash_long(data, length)


def _hash_to_16(data: bytes, length: int) -> int:
    if length > 8:
        low = _word(data, 0) ^ (_secret(24) ^ _secret(32))
        high = _word(data, length - 8) ^ (_secret(40) ^ _secret(48))
        swapped = int.from_bytes(_U64.pack(low), "big")
        return _avalanche(length + swapped + high + _mix(low, high))
    if length >= 4:
        first = _U32.unpack_from(data, 0)[0]
        last = _U32.unpack_from(data, length - 4)[0]
        return _strong_avalanche((last + (first << 32)) ^ (_secret(8) ^ _secret(16)), length)
    if length > 0:
        combined = data[length >> 1] << 24 | data[0] << 16 | length << 8 | data[-1]
        key = _U32.unpack_from(SECRET, 0)[0] ^ _U32.unpack_from(SECRET, 4)[0]
        return _xxh64_avalanche(combined ^ key)
    return _xxh64_avalanche(_secret(56) ^ _secret(64))


def _hash_to_128(data: bytes, length: int) -> int:
    total = length * _PRIME64[0]
    for pair in range((length - 1) // 32 + 1):
        total += _mix_16(data, 16 * pair, 32 * pair)
        total += _mix_16(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total)


def _hash_to_240(data: bytes, length: int) -> int:
    blocks = length // 16
    total = length * _PRIME64[0]
    total += sum(_mix_16(data, 16 * block, 16 * block) for block in range(8))
    total = _avalanche(total)
    total += sum(_mix_16(data, 16 * block, 16 * (block - 8) + 3) for block in range(8, blocks))
    return _avalanche(total + _mix_16(data, length - 16, 136 - 17))


def _hash_long(data: bytes, length: int) -> int:
    accumulators = [_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0]]
    for stripe in range((length - 1) // _STRIPE_BYTES):
        in_block = stripe % _STRIPES_A_BLOCK
        _accumulate(accumulators, _STRIPE.unpack_from(data, stripe * _STRIPE_BYTES), _STRIPE_KEYS[in_block])
        if in_block == _STRIPES_A_BLOCK - 1:
            _scramble(accumulators)
    last_keys = _STRIPE.unpack_from(SECRET, _LAST_STRIPE_SECRET)
    _accumulate(accumulators, _STRIPE.unpack_from(data, length - _STRIPE_BYTES), last_keys)
    total = length * _PRIME64[0]
    for pair in range(4):
        low, high = accumulators[2 * pair : 2 * pair + 2]
        total += _mix(low ^ _secret(11 + 16 * pair), high ^ _secret(19 + 16 * pair))
    return _avalanche(total)


def _accumulate(accumulators: list[int], words: tuple[int, ...], keys: tuple[int, ...]) -> None:
    """Each word goes into the accumulator beside its own, and its product with the key into its own."""
    for lane in range(8):
        keyed = words[lane] ^ keys[lane]
        accumulators[lane ^ 1] = (accumulators[lane ^ 1] + words[lane]) & _M64
        accumulators[lane] = (accumulators[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _M64


def _scramble(accumulators: list[int]) -> None:
    for lane, key in enumerate(_SCRAMBLE_KEYS):
        value = accumulators[lane]
        accumulators[lane] = ((value ^ value >> 47 ^ key) * _PRIME32[0]) & _M64


def _word(data: bytes, position: int) -> int:
    word: int = _U64.unpack_from(data, position)[0]
    return word


def _secret(position: int) -> int:
    return _word(SECRET, position)


def _mix(a: int, b: int) -> int:
    product = (a & _M64) * (b & _M64)
    return (product & _M64) ^ (product >> 64)


def _mix_16(data: bytes, position: int, secret: int) -> int:
    return _mix(_word(data, position) ^ _secret(secret), _word(data, position + 8) ^ _secret(secret + 8))


def _avalanche(value: int) -> int:
    value &= _M64
    value = (value ^ value >> 37) * _PRIME_MX1 & _M64
    return value ^ value >> 32


def _strong_avalanche(value: int, length: int) -> int:
    value ^= _rotated(value, 49) ^ _rotated(value, 24)
    value = value * _PRIME_MX2 & _M64
    value ^= (value >> 35) + length
    value = value * _PRIME_MX2 & _M64
    return value ^ value >> 28


def _xxh64_avalanche(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64[1] & _M64
    value = (value ^ value >> 29) * _PRIME64[2] & _M64
    return value ^ value >> 32


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _M64
