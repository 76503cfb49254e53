# SPDX-License-Identifier: LGPL-2.1-or-later
"""
CUDA tensors that a process with vpmm.torch enabled sends to one that has PyTorch's own allocator. PyTorch is of our own,
and so is the allocator class, which allocates and names one block.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

CLASS = """
#include <string.h>

#include "torch_class.h"

int vpmm_torch_shares;
static const struct torch_class *table;

const char *vpmm_torch_install(const struct torch_class *given)
{
	table = given;
	return 0;
}

static void *block_of(size_t size)
{
	static const struct torch_hooks hooks;
	struct torch_piece block;

	table->init(1, 1, &hooks);
	if (table->alloc(&block, 0, size, size, 0, 0))
		return 0;
	memset((void *)block.addr, 7, size);
	return (void *)block.addr;
}

int share_block(size_t size, char *name, size_t *offset)
{
	void *block = block_of(size);

	return block ? table->share(block, name, offset) : -1;
}
"""

SENDER = """
import ctypes, pickle, sys
import torch, vpmm.torch
import torch.multiprocessing.reductions as reductions
vpmm.torch.enable()
lib = ctypes.CDLL(sys.argv[1])
name, offset = ctypes.create_string_buffer(1000), ctypes.c_size_t()
assert lib.share_block(ctypes.c_size_t(3 << 20), name, ctypes.byref(offset)) == 0
what = reductions.rebuild_cuda_tensor, (0, name.value, 3 << 20, offset.value, b"counter", 5, b"event", True)
sys.stdout.buffer.write(pickle.dumps(what).hex().encode() + b"\\n")
sys.stdout.flush()
sys.stdin.read()
"""

RECEIVER = """
import ctypes, gc, pickle, sys
import torch
done = []

class Array:
    def __init__(self, memory):
        self.memory = memory

    def untyped_storage(self):
        return self

class Event:
    @staticmethod
    def from_ipc_handle(device, event):
        done.append(event)
        return Event()

    def wait(self):
        done.append("wait")

class Stream:
    def synchronize(self):
        done.append("synchronize")

class Device:
    __enter__ = __exit__ = lambda *_: None

torch.cuda.device = lambda _device: Device()
torch.cuda.Event = Event
torch.cuda.current_stream = lambda _device: Stream()
torch.as_tensor = lambda memory, device: Array(memory)
torch.UntypedStorage._new_shared_cuda = staticmethod(lambda *what: ("PyTorch's own", what))
torch.UntypedStorage._release_ipc_counter = staticmethod(lambda *what, device: done.append((what, device)))

sent = pickle.loads(bytes.fromhex(sys.argv[1]))
receive, arguments = sent
"""


@unittest.skipUnless(shutil.which("cc"), "there is no compiler")
class ShareTest(unittest.TestCase):
    def setUp(self):
        self.where = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.where)
        self.object = os.path.join(self.where, "class.so")
        source = os.path.join(self.where, "class.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(CLASS)
        headers = os.path.join(HERE, os.pardir, os.pardir, "python", "vpmm")
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{headers}", source, "-o", self.object], check=True)
        path = os.pathsep.join([os.path.join(HERE, "fake"), os.environ.get("PYTHONPATH", "")])
        self.environment = {**os.environ, "PYTHONPATH": path, "VPMM_HOST_CAPACITY": "64M",
                            "VPMM_TORCH_CLASS": self.object}
        self.sender = subprocess.Popen([sys.executable, "-c", SENDER, self.object], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(self.end)
        self.sent = self.sender.stdout.readline().strip()

    def end(self):
        self.sender.communicate(timeout=60)

    def receive(self, text):
        done = subprocess.run([sys.executable, "-c", RECEIVER + textwrap.dedent(text), self.sent], capture_output=True,
                              text=True, check=False, env=self.environment, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stderr)

    def test_memory(self):
        # The contents are there, behind the sender's work; the sender's count goes back behind that of this process.
        self.receive("""
            storage = receive(*arguments)
            array = storage.memory.__cuda_array_interface__
            assert done == [b"event", "wait"] and array["shape"] == (3 << 20,), (done, array)
            assert ctypes.string_at(array["data"][0], 3 << 20) == b"\\7" * (3 << 20)
            ctypes.memset(array["data"][0], 8, 3 << 20)
            again = receive(*arguments)
            assert ctypes.string_at(again.memory.__cuda_array_interface__["data"][0], 1) == b"\\10"
            import vpmm.torch
            assert not vpmm.torch.is_enabled()
            import vpmm
            assert vpmm.stats().imported >= 3 << 20, vpmm.stats()
            del done[:], storage, again
            gc.collect()
            assert done == ["synchronize", ((b"counter", 5), 0)] * 2, done
            assert vpmm.stats().imported == 0, vpmm.stats()
        """)

    def test_late(self):
        # It goes as quietly after the module has gone, at the interpreter's end.
        self.receive("""
            import threading
            threading.kept = receive(*arguments)
        """)

    def test_other_memory(self):
        # What PyTorch's own allocator has sent stays its matter.
        self.receive("""
            receive(*arguments)
            what = (0, b"\\0c", 100, 0, b"", 0, b"", False)
            assert receive(*what) == ("PyTorch's own", what)
        """)

    def test_ended(self):
        self.end()
        self.receive("""
            import vpmm
            try:
                receive(*arguments)
            except vpmm.Error as error:
                assert "has ended" in str(error), error
            else:
                raise AssertionError
            gc.collect()
            assert (b"counter", 5) not in done
        """)


if __name__ == "__main__":
    unittest.main()
