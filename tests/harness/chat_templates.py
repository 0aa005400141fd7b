"""Chat templates in the manner of common families, small enough to read, and tokenizers that have them."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["CHATML", "GEMMA", "LLAMA3", "MISTRAL", "TEMPLATES", "THINKING", "write_tokenizer"]

CHATML = (
    "{%- if messages[0].role != 'system' -%}"
    "{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{%- endif -%}"
    "{%- for m in messages -%}"
    "{%- if m.role == 'system' and tools -%}"
    "{{ '<|im_start|>system\\n' + m.content + '\\n<tools>' }}"
    "{%- for tool in tools -%}{{ '\\n' + (tool | tojson) }}{%- endfor -%}{{ '\\n</tools><|im_end|>\\n' }}"
    "{%- elif m.role == 'tool' -%}"
    "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{ '<|im_start|>user' }}{%- endif -%}"
    "{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{ '<|im_end|>\\n' }}{%- endif -%}"
    "{%- else -%}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content }}"
    "{%- for call in m.tool_calls or [] -%}"
    '{{ \'\\n<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- (call.function.arguments | tojson) + '}\\n</tool_call>' }}"
    "{%- endfor -%}"
    "{{ '<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)
"""Qwen 2.5: a system prompt of its own, tool answers grouped in a user's turn."""

THINKING = CHATML.replace(
    "{{ '<|im_start|>' + m.role + '\\n' + m.content }}",
    "{%- set said = m.content.split('</think>')[-1].lstrip('\\n') if m.role == 'assistant' else m.content -%}"
    "{%- if m.role == 'assistant' and loop.last -%}"
    "{{ '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' + said }}"
    "{%- else -%}{{ '<|im_start|>' + m.role + '\\n' + said }}{%- endif -%}",
)
"""Qwen 3: the last turn is rendered otherwise than those before it, and thoughts are dropped."""

LLAMA3 = (
    "{{ bos_token }}"
    "{%- for m in messages -%}"
    "{%- if m.tool_calls -%}"
    "{%- if m.tool_calls | length != 1 -%}{{ raise_exception('one call at a time') }}{%- endif -%}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
    '{{- \'{"name": "\' + m.tool_calls[0].function.name + \'", "parameters": \' }}'
    "{{- (m.tool_calls[0].function.arguments | tojson) + '}<|eot_id|>' }}"
    "{%- elif m.role == 'tool' -%}"
    "{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + m.content + '<|eot_id|>' }}"
    "{%- else -%}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + (m.content | trim) + '<|eot_id|>' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}"
)

MISTRAL = (
    "{{ bos_token }}"
    "{%- set ns = namespace(system='', last='') -%}"
    "{%- for m in messages -%}"
    "{%- if m.role == 'system' -%}{%- set ns.system = m.content + '\\n\\n' -%}"
    "{%- elif m.role == 'tool' -%}"
    "{%- if ns.last != 'calls' -%}{{ raise_exception('a tool answers a call') }}{%- endif -%}"
    "{%- if m.tool_call_id | length != 9 -%}{{ raise_exception('ids have nine characters') }}{%- endif -%}"
    "{{ '[TOOL_RESULTS] {\"content\": ' + (m.content | tojson) + '}[/TOOL_RESULTS]' }}"
    "{%- elif m.role == 'user' -%}"
    "{%- if ns.last == 'user' -%}{{ raise_exception('roles must alternate') }}{%- endif -%}"
    "{{ '[INST] ' + ns.system + m.content + '[/INST]' }}"
    "{%- set ns.system = '' -%}{%- set ns.last = 'user' -%}"
    "{%- elif m.tool_calls -%}"
    "{{ '[TOOL_CALLS] [' }}"
    "{%- for call in m.tool_calls -%}"
    '{{ \'{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- (call.function.arguments | tojson) + '}' }}"
    "{%- if not loop.last -%}{{ ', ' }}{%- endif -%}"
    "{%- endfor -%}{{ ']' + eos_token }}{%- set ns.last = 'calls' -%}"
    "{%- else -%}{{ ' ' + m.content + eos_token }}{%- set ns.last = 'assistant' -%}"
    "{%- endif -%}"
    "{%- endfor -%}"
)
"""No head before the assistant speaks; roles alternate; a tool's message needs a call before it."""

GEMMA = (
    "{{ bos_token }}"
    "{%- if messages[0].role == 'system' -%}{{ raise_exception('no system role') }}{%- endif -%}"
    "{%- for m in messages -%}"
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}"
    "{{ raise_exception('roles must alternate') }}{%- endif -%}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\\n' }}"
    "{{- (m.content | trim) + '<end_of_turn>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"
)
"""Knows users and itself, and nobody else; its turns end with another token than its texts."""

TEMPLATES = {
    "chatml": (CHATML, "<|im_end|>"),
    "thinking": (THINKING, "<|im_end|>"),
    "llama3": (LLAMA3, "<|eot_id|>"),
    "mistral": (MISTRAL, "</s>"),
    "gemma": (GEMMA, "<end_of_turn>"),
}
"""The template and the token that ends its turns."""

_SPECIAL = (
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "<start_of_turn>",
    "<end_of_turn>",
)


def write_tokenizer(folder: Path, template: str | None, **generation: object) -> Path:
    """A folder with a tokenizer of bytes that knows the families' special tokens, and a template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in _SPECIAL])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    if template is not None:
        wrapped.chat_template = template
    wrapped.save_pretrained(folder)
    if generation:
        (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    return folder
