"""A small server that speaks what vLLM's and SGLang's do, with a torch engine behind it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from transformers import PreTrainedModel

from tests.training_core.llm.toys import TOKENIZER
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models.lora import load_trained_weights, read_adapter
from training_core.types import Answer, NoiseKey, Prompt


class CompletionsServer:
    """Answers with its own model; what it was asked is kept."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.engine = TorchEngine(model, TOKENIZER)
        self.model = model
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[str] = []
        self.failures: list[int] = []
        """Status codes to answer with first."""
        self.names_tokens = True
        """Whether ids stand in `token_ids`, or in place of the tokens' texts alone."""
        self.hold: threading.Event | None = None
        """Answers wait for it."""
        self.adapters: dict[str, Path] = {}
        self.context: int | None = None
        """Its context length, if it reports one."""
        self._lock = threading.Lock()

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/v1/models"
        return {"data": [{"id": "toy", "max_model_len": self.context}]}

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        acts: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
            "/v1/completions": self._complete,
            "/collective_rpc": lambda call: self._reload(call["kwargs"]["weights_path"]),
            "/update_weights_from_disk": lambda call: self._reload(call["model_path"]),
            "/reset_prefix_cache": lambda call: None,
            "/flush_cache": lambda call: None,
            "/v1/load_lora_adapter": self._load_adapter,
            "/v1/unload_lora_adapter": self._unload_adapter,
        }
        self.asked.append((path, body))
        return acts[path](body)

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.hold:
            assert self.hold.wait(60)
        assert body["model"] == "toy" or body["model"] in self.adapters
        settings = SamplingSettings(
            temperature=body["temperature"] or 1.0,
            top_k=max(body["top_k"], 0),
            top_p=body["top_p"],
            max_tokens=body["max_tokens"],
            greedy=body["temperature"] == 0,
            stop=tuple(body["stop"]),
        )
        prompt = Prompt(body["prompt"], body["n"], NoiseKey(body["seed"], 0, 0, 0, 0, 0))
        with self._lock:
            answers = self.engine.generate([prompt], settings)[0]
        choices = [self._choice(index, answer) for index, answer in enumerate(answers)]
        return {"choices": choices[::-1]}  # in no order: `index` says which is which

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        reported = {
            "tokens": [f"token_id:{token}" for token in answer.token_ids],
            "token_logprobs": answer.logprobs,
        }
        choice = {
            "index": index,
            "text": answer.text,
            "finish_reason": answer.stop_reason,
            "logprobs": reported,
        }
        return choice | ({"token_ids": answer.token_ids} if self.names_tokens else {})

    def _reload(self, folder: str) -> dict[str, Any]:
        weights = load_file(Path(folder) / "model.safetensors")
        self.model.load_state_dict(weights, strict=False)
        return {"success": True}

    def _load_adapter(self, body: dict[str, Any]) -> None:
        self.adapters[body["lora_name"]] = Path(body["lora_path"])
        load_trained_weights(self.model, read_adapter(Path(body["lora_path"])))

    def _unload_adapter(self, body: dict[str, Any]) -> None:
        del self.adapters[body["lora_name"]]


@contextmanager
def serving(server: CompletionsServer) -> Iterator[str]:
    """Serve on a free port; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(lambda: server.get(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(lambda: server.post(self.path, body))

        def _answer(self, act: Callable[[], dict[str, Any] | None]) -> None:
            server.headers.append(self.headers.get("Authorization", ""))
            status = server.failures.pop(0) if server.failures else 200
            said = json.dumps(act()).encode() if status == 200 else b"not now"
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_address[1]}"
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
