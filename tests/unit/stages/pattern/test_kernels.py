"""Triton's kernels against the patterns' definition, interpreted, and compiled for GPUs that are not here."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
INTERPRETED = """
import triton.language as tl
from rigproof.stages.pattern import choosing, words
words.tl = tl  # the interpreter looks for it; the compiler does not
from rigproof.devices.opening import open_device
from rigproof.stages.pattern.kernels import BLOCK, TritonPasses
from rigproof.stages.pattern.passes import MOST_FOUND, Chunk, Content
device = open_device("cpu", 1)
choosing.PROBE_WORDS = 2 * BLOCK
assert choosing.disagreement(TritonPasses, device) == ""
rows = [device.words(BLOCK), device.words(2 * BLOCK)]
passes = TritonPasses([Chunk(rows[0], 0), Chunk(rows[1], BLOCK)])
content = Content("random", 9)
passes.write(content)
rows[1][:100] += 1
passes.prepare()
passes.compare(content, invert=True)
result = passes.result()
assert (result.right, result.wrong, len(result.found)) == (3 * BLOCK - 100, 100, MOST_FOUND)
assert {one.number for one in result.found} <= set(range(BLOCK, BLOCK + 100))
assert all(one.read == content.word(one.number) + 1 for one in result.found)
passes.prepare()
assert passes.result().right == 0
"""
COMPILED = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from rigproof.stages.pattern.kernels import BLOCK, WARPS, sweep
from rigproof.stages.pattern.passes import MOST_FOUND
types = dict.fromkeys(("words", "counted", "found"), "*i64") | {"right": "*i32", "pattern": "i32"}
types |= dict.fromkeys(("first", "seed", "flip"), "i64")
types |= dict.fromkeys(("READ", "WRITE", "BLOCK", "MOST"), "constexpr")
signature = {name: types[name] for name in sweep.arg_names}
for capability in (75, 80, 86, 89, 90, 100, 120):
    # The sweep that reads and writes has all lines; the oldest and the newest compile its parts, too.
    parts = [(False, True), (True, False)] if capability in (75, 120) else []
    for read, write in [*parts, (True, True)]:
        fixed = {"READ": read, "WRITE": write, "BLOCK": BLOCK, "MOST": MOST_FOUND}
        source = ASTSource(fn=sweep, signature=signature, constexprs=fixed)
        target = GPUTarget("cuda", capability, 32)
        assert triton.compile(source, target=target, options={"num_warps": WARPS}).asm["cubin"]
"""


def run(program, tmp_path, **environment):
    """In an interpreter of its own: Triton decides when it is imported whether it compiles or interprets."""
    environment |= {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=os.environ | environment, check=True, timeout=300)


def test_interpreted_they_do_what_torchs_operations_do(tmp_path):
    run(INTERPRETED, tmp_path, TRITON_INTERPRET="1")


def test_they_compile_for_every_architecture(tmp_path):
    run(COMPILED, tmp_path)
