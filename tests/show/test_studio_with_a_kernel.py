"""The Mask Studio tied to a real kernel: its comm messages are carried to the browser and back."""

import json
from collections.abc import Iterator

import pytest
from jupyter_client.manager import start_new_kernel

from tinyattn.patterns import Window
from tinyattn.show.widgets import STATIC
from tinybook.widgets import as_function_body

from .studio_page import Studio
from .test_studio_in_browser import LIVE

SECONDS = 120
MAKE = """
import torch
from tinyattn import attention, sparse_attention
from tinyattn.patterns import Causal, Painted, Window
from tinyattn.show import MaskStudio
studio = MaskStudio(Window(1), n=16)
print(studio.model_id)
"""
STATE = """
import json
names = "kit", "setting", "more", "asked"
print(json.dumps({name: getattr(studio, name) for name in names}))
"""
USE = """
q, k, v = torch.randn(3, 1, 2, studio.n, 4, generator=torch.Generator().manual_seed(0))
out = sparse_attention(q, k, v, studio.pattern)
assert torch.allclose(out, attention(q, k, v, studio.mask), atol=1e-6)
print(type(studio.pattern).__name__, studio.n, int(studio.mask.sum()), bool(studio.mask[2, 13]))
"""


class Kernel:
    """A kernel, and what its one studio told its front."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel(kernel_name="python3")
        self.updates: list[dict] = []
        self.studio = self.run(MAKE).strip()

    def run(self, code: str) -> str:
        return self._printed(self.client.execute(code))

    def browser_sends(self, **state: object) -> None:
        data = {"method": "update", "state": state, "buffer_paths": []}
        message = self.client.session.msg("comm_msg", {"comm_id": self.studio, "data": data})
        self.client.shell_channel.send(message)
        self._printed(message["header"]["msg_id"])

    def _printed(self, request: str) -> str:
        """What a request printed, once the kernel is idle again."""
        printed = ""
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                return printed
            if kind == "stream" and content["name"] == "stdout":
                printed += content["text"]
            if kind == "comm_msg" and content["data"].get("method") == "update":
                self.updates.append(content["data"]["state"])
            assert kind != "error", content["evalue"]

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.close()


def test_an_edit_on_either_side_reaches_the_other_and_attention(kernel, open_page):
    page = open_page()
    state = json.loads(kernel.run(STATE))
    page.evaluate(LIVE, [as_function_body(STATIC / "studio.js"), state])
    studio = Studio(page)

    def carry_to_kernel() -> None:
        kernel.browser_sends(setting=page.evaluate("state.setting"))

    def carry_to_browser() -> None:
        for update in kernel.updates:
            for name, value in update.items():
                page.evaluate("([name, value]) => python(name, value)", [name, value])
        kernel.updates.clear()

    # the browser paints: Python computes with it
    studio.drag((2, 9), (2, 13))
    carry_to_kernel()
    assert kernel.run(USE).split() == ["Painted", "16", str(46 + 5), "True"]

    # Python edits what was painted: the browser draws it
    kernel.updates.clear()
    kernel.run("mask = studio.mask; mask[2, 13] = False; mask[9, 2] = True; studio.mask = mask")
    carry_to_browser()
    assert studio.numbers()["pairs"] == "51 of 256"
    assert studio.inked()[2, 13] == 0
    assert studio.inked()[9, 2] == 1

    # Python assigns a rule: the browser writes it; the browser changes it, and Python has it
    kernel.run("studio.pattern = Window(3) & Causal()")
    carry_to_browser()
    assert studio.code == "Window(3) & Causal()"
    studio.check("causal").click()
    carry_to_kernel()
    assert kernel.run("print(studio.pattern == Window(3))").strip() == "True"
    assert kernel.run(USE).split() == ["Window", "16", str(Window(3).edges(16)), "False"]

    # a size that the browser has no masks of
    kernel.updates.clear()
    studio.slider("n, tokens").press("End")
    kernel.browser_sends(asked=page.evaluate("state.asked"))
    carry_to_browser()
    assert studio.n == 128
    carry_to_kernel()
    assert kernel.run(USE).split()[1:3] == ["128", str(Window(3).edges(128))]
