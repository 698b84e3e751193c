"""Conversations, and templates in the forms that models have."""

from __future__ import annotations

from typing import Any

CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'The weather <of> a city & its "surroundings".',
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three?"},
    ],
    [
        {"role": "system", "content": "  You speak\nFrench.  "},
        {"role": "user", "content": "  Bonjour, ça va ? 🦙 \n"},
        {"role": "assistant", "content": "\nOui."},
        {"role": "user", "content": "Bien"},
    ],
    [{"role": "user", "content": ""}],
    [{"role": "user", "content": " \n "}],
    [{"role": "assistant", "content": "I begin."}, {"role": "user", "content": "No."}],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "user", "content": "<b>&amp;</b> {{ 7 * 7 }} {% raw %} \\n \"quoted\" 'single'"}],
    [
        {"role": "user", "content": "Think"},
        {"role": "assistant", "content": "<think>\nso\n</think>\n\nDone."},
        {"role": "user", "content": "Again"},
    ],
    [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "name": "weather", "content": '{"sun": true}'},
    ],
    [{"role": "user", "content": "x" * 500}, {"role": "assistant", "content": "y\r\n" * 20}],
]

TEMPLATES = {
    "chatml": (
        "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
        "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "headers": (
        "{{- bos_token }}\n{%- if messages[0].role == 'system' %}\n    {%- set system = messages[0].content | trim %}\n"
        "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system = '' %}\n{%- endif %}\n"
        "{{- '<|start_header_id|>system<|end_header_id|>\n\n' + system + '<|eot_id|>' }}\n"
        "{%- for message in messages %}\n    {%- if message.tool_calls %}\n"
        "        {%- set call = message.tool_calls[0] %}\n"
        "        {{- '{\"name\": \"' ~ call.function.name ~ '\", \"parameters\": '"
        " ~ (call.function.arguments | tojson) ~ '}' }}\n"
        "    {%- else %}\n"
        "        {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n'"
        " + message.content | trim + '<|eot_id|>' }}\n"
        "    {%- endif %}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}\n"
    ),
    "instructions": (
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
        "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ message['content'] + eos_token }}{% elif loop.index0 > 3 %}{{ raise_exception('Too late.') }}"
        "{% endif %}{% endfor %}"
    ),
    "turns": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' and false %}{{ raise_exception('No.') }}{% endif %}"
        "{% for message in messages %}{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
        "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
    ),
    "named": (
        "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token + '\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
    ),
    "tools": (
        "{%- if tools %}\n    {{- '<|im_start|>system\n# Tools\n<tools>' }}\n    {%- for tool in tools %}\n"
        "        {{- '\n' }}\n        {{- tool | tojson }}\n    {%- endfor %}\n"
        "    {{- '\n</tools><|im_end|>\n' }}\n{%- endif %}\n"
        "{%- set ns = namespace(last=-1) %}\n{%- for message in messages %}\n"
        "    {%- if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}\n{%- endfor %}\n"
        "{%- for message in messages %}\n    {%- if message.role == 'skip' %}{% continue %}{% endif %}\n"
        "    {%- set content = message.content %}\n    {%- if '</think>' in content and loop.index0 < ns.last %}\n"
        "        {%- set content = content.split('</think>')[-1].lstrip('\n') %}\n    {%- endif %}\n"
        "    {{- '<|im_start|>' + message.role + '\n' }}{% generation %}{{ content }}{% endgeneration %}\n"
        "    {%- for call in message.tool_calls or [] %}\n"
        "        {{- '<tool_call>' + (call.function | tojson(indent=2)) + '</tool_call>' }}\n    {%- endfor %}\n"
        "    {{- '<|im_end|>\n' }}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}\n"
    ),
}  # fmt: skip
