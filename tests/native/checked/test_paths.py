# SPDX-License-Identifier: LGPL-2.1-or-later
"""Paths that the driver makes of dentries and mounts, whatever these look like, counted step by step."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Sequence

import pytest

from gilk.trace.d.memory import MemoryOptions
from tests.native.checked.counted import Bench, Called
from tests.native.checked.library import library
from tests.seldom import seldom

ALL, LAST, DIRECTORY = 0, 16, 32
PATH, MOUNT, DENTRY, CWD, ROOT = range(5)
STEPS = 32  # ILK_D_STEPS
PIPES, SOCKETS, ANONYMOUS, NAMESPACES, OTHERS = 0x50495045, 0x534F434B, 0x09041934, 0x6E736673, 0x01021994


class Tree:
    """Dentries, mounts and what belongs to them, in memory of this process, each as library.c has them."""

    def __init__(self, strsize: int = 257) -> None:
        self._kept: list[ctypes.Array[ctypes.c_char]] = []
        self.bench = Bench(MemoryOptions(1, 4096, strsize=strsize, scratches=0, globals_size=512))
        self.strsize = strsize
        self.super = self.words(OTHERS)
        self.stand(0, 0, 0)
        self.stand(1, 0, 0)

    def stand(self, own: int, dentry: int, mount: int) -> None:
        library().stood(own, ctypes.c_uint64(dentry), ctypes.c_uint64(mount))

    def bytes(self, data: bytes) -> int:
        self._kept.append(ctypes.create_string_buffer(data, len(data) + 32))
        return ctypes.addressof(self._kept[-1])

    def words(self, *words: int) -> int:
        return self.bytes(struct.pack(f"{len(words)}Q", *words))

    def dentry(
        self, name: bytes, parent: int = 0, super_: int = 0, hashed: int = 1, inode: int = 0, operations: int = 0,
        data: int = 0, length: int | None = None,
    ) -> int:  # fmt: skip
        """A dentry; without a parent it is its own parent."""
        size = len(name) if length is None else length
        at = self.bytes(
            struct.pack(
                "QQIIQQQQQ", hashed, parent, 0, size, self.bytes(name), inode, super_ or self.super, operations, data
            )
        )
        if not parent:
            ctypes.c_uint64.from_address(at + 8).value = at
        return at

    def mount(self, root: int, above: int = 0, place: int = 0, super_: int = 0) -> int:
        """The address of the struct vfsmount in a mount; ``above`` is such an address, too. Without it the mount is
        its own parent."""
        at = self.words(above - 16 if above else 0, place, root, super_ or self.super)
        if not above:
            ctypes.c_uint64.from_address(at).value = at
        return at + 16

    def down(self, names: Sequence[bytes], parent: int) -> int:
        for name in names:
            parent = self.dentry(name, parent)
        return parent

    def called(self, kind: int, address: int) -> tuple[Called, bytes]:
        self.bench.begin()
        to = self.bench.put(0, b"\xa5" * self.strsize)
        called = self.bench.within("path_text", kind, to, address, self.strsize)
        whole = bytes(self.bench.frame[to : to + self.strsize])
        text = whole.split(b"\0")[0]
        if called.result:
            assert whole == text.ljust(self.strsize, b"\0")
        return called, text

    def text(self, dentry: int, mount: int, part: int = ALL) -> bytes:
        called, text = self.called(PATH | part, self.words(mount, dentry))
        assert called.result and not called.fault
        return text


@pytest.fixture
def tree() -> Tree:
    return Tree()


def parent_of(dentry: int) -> int:
    return ctypes.c_uint64.from_address(dentry + 8).value


def parts(tree: Tree, dentry: int, mount: int) -> tuple[bytes, bytes]:
    return tree.text(dentry, mount, LAST), tree.text(dentry, mount, DIRECTORY)


DEEP = (b"/", b"/a", b"/usr/lib/x", b"/" + b"n" * 255, b"/x" * 32, b"/" + b"\xff/" * 20 + b"e")


@pytest.mark.parametrize("path", DEEP)
def test_a_path_goes_to_the_root_of_the_task(tree: Tree, path: bytes) -> None:
    root = tree.dentry(b"/")
    mount = tree.mount(root)
    tree.stand(0, root, mount)
    found = tree.down([name for name in path.split(b"/") if name], root)
    assert tree.text(found, mount) == path
    if path != b"/":
        assert parts(tree, found, mount) == (os.path.basename(path), os.path.dirname(path))


def test_a_path_goes_over_mounts(tree: Tree) -> None:
    root = tree.dentry(b"/")
    top = tree.mount(root)
    tree.stand(0, root, top)
    super_ = tree.words(OTHERS)
    place = tree.down([b"mnt", b"disk"], root)
    inner = tree.dentry(b"/", super_=super_)
    mount = tree.mount(inner, top, place, super_)
    file = tree.dentry(b"file", inner, super_)
    assert tree.text(file, mount) == b"/mnt/disk/file" and tree.text(inner, mount) == b"/mnt/disk"
    assert tree.called(MOUNT, mount)[1] == b"/mnt/disk" and tree.called(MOUNT, top)[1] == b"/"
    assert tree.called(DENTRY, file)[1] == b"/file"
    tree.stand(1, file, mount)
    assert tree.called(CWD, 0)[1] == b"/mnt/disk/file"
    tree.stand(0, place, top)
    assert tree.called(ROOT, 0)[1] == b"/mnt/disk"
    library().first_stood(ctypes.c_uint64(parent_of(place)), ctypes.c_uint64(top))
    assert tree.called(ROOT, 0)[1] == b"/disk"
    library().first_stood(ctypes.c_uint64(0), ctypes.c_uint64(0))
    tree.stand(0, inner, mount)  # a task that sees no more than that
    assert tree.text(file, mount) == b"/file" and tree.text(inner, mount) == b"/"


def test_an_inconsistent_mount_truncates_the_path(tree: Tree) -> None:
    root = tree.dentry(b"/")
    top = tree.mount(root)
    tree.stand(0, root, top)
    other = tree.words(OTHERS)
    inner = tree.dentry(b"/", super_=other)
    elsewhere = tree.dentry(b"strange", root, super_=other)
    mount = tree.mount(inner, top, elsewhere, other)
    assert tree.text(tree.dentry(b"file", inner, other), mount) == b".../file"
    assert tree.text(inner, mount) == b"..."


def test_a_detached_mount_has_no_path(tree: Tree) -> None:
    root = tree.dentry(b"/")
    mount = tree.mount(root)
    assert tree.called(MOUNT, mount)[1] == b"<unknown>"
    assert tree.text(tree.dentry(b"file", root), mount) == b"/file"
    assert tree.called(CWD, 0)[1] == b"<unknown>"


@pytest.mark.parametrize("strsize", [9, 33, 65, 257])
@pytest.mark.parametrize("name", [b"a", b"component", b"n" * 255])
@pytest.mark.parametrize("deep", seldom([32, 33, 200, 1, 8, 31], 3))
def test_a_path_too_long_or_too_deep_lacks_its_beginning(strsize: int, name: bytes, deep: int) -> None:
    tree = Tree(strsize)
    root = tree.dentry(b"/")
    mount = tree.mount(root)
    tree.stand(0, root, mount)
    names = [b"%d%s" % (number % 10, name[1:]) for number in range(deep)]
    whole, found = b"/" + b"/".join(names), tree.text(tree.down(names, root), mount)
    if deep <= STEPS and len(whole) < strsize:
        assert found == whole
    elif found != (b".../" + names[-1])[: strsize - 1]:
        assert found.startswith(b".../") and whole.endswith(found[3:]) and len(found) < strsize


def test_a_deleted_file_is_marked_as_deleted(tree: Tree) -> None:
    root = tree.dentry(b"/")
    mount = tree.mount(root)
    gone = tree.dentry(b"x", tree.dentry(b"tmp", root), hashed=0)
    assert tree.text(gone, mount) == b"/tmp/x (deleted)"
    assert parts(tree, gone, mount) == (b"x (deleted)", b"/tmp")


@pytest.mark.parametrize(
    ("magic", "name", "text", "directory"),
    [
        (PIPES, b"", b"pipe:[4711]", b"."),
        (SOCKETS, b"TCP", b"socket:[4711]", b"."),
        (ANONYMOUS, b"[eventpoll]", b"anon_inode:[eventpoll]", b"."),
        (NAMESPACES, b"", b"net:[4711]", b"."),
        (OTHERS, b"memfd:x", b"/memfd:x (deleted)", b"/"),
    ],
)
def test_files_without_a_path_have_a_name_of_their_kind(
    tree: Tree, magic: int, name: bytes, text: bytes, directory: bytes
) -> None:
    super_, operations = tree.words(magic), tree.words(1)
    kind = tree.words(tree.bytes(b"net\0"))
    file = tree.dentry(name, super_=super_, inode=tree.words(4711), operations=operations, data=kind)
    mount = tree.mount(tree.dentry(b"/", super_=super_), super_=super_)
    assert tree.text(file, mount) == text
    assert parts(tree, file, mount) == (text.removeprefix(b"/"), directory)


def test_absent_structures_are_faults_and_cycles_end(tree: Tree) -> None:
    assert tree.called(PATH, 0x10)[0].fault and tree.called(PATH, tree.words(0x10, 0x20))[0].fault
    assert tree.called(DENTRY, 0)[0].fault and tree.called(MOUNT, 0)[0].fault
    one = tree.dentry(b"one", 1)
    two = tree.dentry(b"two", one)
    ctypes.c_uint64.from_address(one + 8).value = two
    found = tree.text(two, 0)
    assert found == b"..." + b"/one/two" * 16
    mounts = [tree.mount(one, tree.mount(one), one)]
    ctypes.c_uint64.from_address(mounts[0] - 16).value = mounts[0] - 32  # it is on itself, 16 bytes off
    called, _ = tree.called(PATH, tree.words(mounts[0], one))
    assert called.result or called.fault


def test_a_name_may_be_any_bytes_of_any_length(tree: Tree) -> None:
    """A name that is being replaced may look like that."""
    root = tree.dentry(b"/")
    mount = tree.mount(root)
    assert tree.text(tree.dentry(b"a" * 255 + b"b" * 80, root, length=1 << 31), mount) == b"/" + b"a" * 255
    assert tree.text(tree.dentry(b"ab\0cd", root), mount) == b"/ab"
    assert tree.called(DENTRY, tree.dentry(b"", root, length=0))[1] == b"/"


def test_cycles_of_mounts_end(tree: Tree) -> None:
    root = tree.dentry(b"/")
    first = tree.mount(root, 1 << 4, root)
    second = tree.mount(root, first, root)
    ctypes.c_uint64.from_address(first - 16).value = second - 16
    assert tree.text(root, first) == b"..."


# Arguments.


def arguments(tree: Tree, mm: int, start: int, size: int) -> bytes:
    library().argued(ctypes.c_uint64(start), ctypes.c_uint64(start + size))
    tree.bench.begin()
    to = tree.bench.put(0, b"\xa5" * tree.strsize)
    called = tree.bench.within("arguments", to, mm, tree.strsize)
    assert called.result and not called.fault
    whole = bytes(tree.bench.frame[to : to + tree.strsize])
    text = whole.split(b"\0")[0]
    assert whole == text.ljust(tree.strsize, b"\0")
    return text


@pytest.mark.parametrize("strsize", [1, 9, 257])
@pytest.mark.parametrize("given", [b"", b"ls\0", b"sh\0-c\0a b\0", b"x" * 300, b"\0" * 300, b"a\0" * 200])
def test_arguments_of_a_process_are_separated_by_blanks(strsize: int, given: bytes) -> None:
    tree = Tree(strsize)
    found = arguments(tree, 1, tree.bytes(given), len(given))
    assert found == given[: strsize - 1].rstrip(b"\0").replace(b"\0", b" ")
    assert arguments(tree, 2, tree.bytes(given), len(given)) == b""
    assert arguments(tree, 1, tree.bytes(given) + 1, -1) == b""


def test_unmapped_arguments_of_a_process_are_left_out(tree: Tree) -> None:
    """Missing pages give no arguments, or those of the first page if only the second is missing."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    pages[mmap.PAGESIZE - 8 : mmap.PAGESIZE + 8] = b"first\0a\0second\0\0"
    at = start + mmap.PAGESIZE - 8
    assert arguments(tree, 1, at, 15) == b"first a second"
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0)
    assert arguments(tree, 1, at, 15) == b"first a"
    assert arguments(tree, 1, start + mmap.PAGESIZE, 15) == b"" and arguments(tree, 1, 0x10, 100) == b""
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 3)
