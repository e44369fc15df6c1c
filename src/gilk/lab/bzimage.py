# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes an installed kernel image (bzImage) into one that needs no decompression (ELF).

Under emulation the kernel's own decompressor takes three seconds; here it takes half of one, once. The kernel is then
entered by its PVH entry (Xen's "start info" protocol, which QEMU speaks), and lies at its link-time address: KASLR,
which would move it, is part of the decompressor.

Layout: Documentation/x86/boot.rst of the kernel, fields setup_sects, payload_offset, payload_length; offsets are from
the beginning of the file.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from typing import Final

from gilk.errors import ImageError

_MAGIC: Final = b"HdrS"
_MAGIC_AT: Final = 0x202
_SETUP_SECTORS_AT: Final = 0x1F1
_PAYLOAD_AT: Final = 0x248  # offset and length, u32 each; the offset counts from the end of the setup sectors
_PVH_NOTE: Final = struct.pack("<I4s", 18, b"Xen\0")  # XEN_ELFNOTE_PHYS32_ENTRY


def payload(image: bytes) -> bytes | None:
    """The decompressed kernel inside, an ELF file; None if it is compressed in a way that Python cannot undo.

    Raises ImageError kernel-image.
    """
    if image[_MAGIC_AT : _MAGIC_AT + 4] != _MAGIC:
        raise ImageError("kernel-image", "not a kernel image for x86: the boot header is missing")
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_AT)
    start = ((image[_SETUP_SECTORS_AT] or 4) + 1) * 512 + offset
    packed = image[start : start + length]
    try:
        kernel = _decompress(packed)
    except (lzma.LZMAError, zlib.error) as error:
        raise ImageError("kernel-image", f"the kernel image is damaged: {error}")
    if kernel is not None and not kernel.startswith(b"\x7fELF"):
        raise ImageError("kernel-image", "the kernel image is damaged: no ELF file inside")
    return kernel


def has_direct_entry(kernel: bytes) -> bool:
    """Whether the ELF file can be entered without the real-mode part of the image (CONFIG_PVH)."""
    return _PVH_NOTE in kernel


def _decompress(packed: bytes) -> bytes | None:
    """The decompressed data; None if the format is unknown. A decompressor object is used, which stops before the
    length of the result that follows the compressed data. Raises ImageError kernel-image."""
    decompressor: lzma.LZMADecompressor | zlib._Decompress
    if packed.startswith(b"\xfd7zXZ\0"):
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    elif packed.startswith(b"\x1f\x8b"):
        decompressor = zlib.decompressobj(wbits=31)
    else:
        return None
    kernel = decompressor.decompress(packed)
    if not decompressor.eof:
        raise ImageError("kernel-image", "the kernel image is damaged: it ends early")
    return kernel
