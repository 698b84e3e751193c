"""What people bring along from PyTorch, JAX, NumPy and Keras: names and words for arguments, and what to write here.

Names that mean the same here are aliases, next to what they name; this is about the others.
"""

from __future__ import annotations

from typing import Final

_NOT_RECORDED = (
    "Leave it out: nothing is recorded unless a derivative is asked for. "
    "sm.stop_gradient(x) makes a constant of a value."
)
_GRADIENTS = "Write loss.gradient(x), or loss, grads = sm.value_and_grad(f)(model): gradients are results."
_FLAGS = "Leave it out: derivatives are by any float tensor. model.freeze() makes constants of parameters."
_CORES = "Leave it out to compute on all cores of the processor. Where `smelt devices` lists OpenCL, write "
_DEVICES = f'{_CORES}x.to_device("opencl"), or sm.set_default_device("opencl").'
_MODULE_DEVICES = f'{_CORES}model = model.to_device("opencl").'
_MODULE_TYPES = "Write model = model.astype(sm.float16), or another dtype: a module with other tensors."
_MEMORY = "Leave it out: how values lie in memory is not for users to see. x.numpy() has strides."
_CHANGED = "Tensors never change: make another one, such as w = sm.zeros(w.shape)."
_COMPLEX = "There are no complex dtypes yet."
_LINALG = "It is planned. Until then np.linalg computes with x.numpy()."
_KEYS = "Write sm.random.seed(0), or key = sm.random.key(0) and draw with key=key."
_OWN_INITIALIZERS = "Write w = sm.random.xavier_uniform(w.shape): tensors never change; sm.random has them all."
_STEP = "Write model, state = opt.update(model, grads, state), after state = opt.init(model)."
_SCHEDULES = "Write lr=sm.optim.schedules.cosine(...), or another schedule: the rate is a function of the updates done."
_CLIPPING = "Write opt = sm.optim.chain(sm.optim.ClipNorm(1.0), sm.optim.AdamW(lr=1e-3))."
_HOOKS = "Leave it out: intermediate values are plain tensors, so return them."
_LISTS = "Use a list or a dictionary: tensors in it are found."
_SAVE = 'Write sm.save(model, "net.safetensors"), and model = sm.load(Net(), "net.safetensors").'

# The module or class that is asked; the name; what to write.
NAMES: Final[dict[str, dict[str, str]]] = {
    "smelt": {
        **dict.fromkeys(("no_grad", "enable_grad", "inference_mode", "set_grad_enabled"), _NOT_RECORDED),
        **dict.fromkeys(("cuda", "mps", "backends", "device_put"), _DEVICES),
        **dict.fromkeys(("complex64", "complex128", "conj", "real", "imag", "fft"), _COMPLEX),
        **dict.fromkeys(("linalg", "inv", "solve", "svd", "eigh", "cholesky", "qr", "det", "lstsq", "pinv"), _LINALG),
        **dict.fromkeys(("PRNGKey", "Generator"), _KEYS),
        **dict.fromkeys(("float", "float_"), "Write sm.float32 or sm.float64."),
        **dict.fromkeys(("int", "int_"), "Write sm.int32 or sm.int64."),
        **dict.fromkeys(("ndarray", "Array"), "Write sm.Tensor."),
        "device": 'Devices are texts: write device="cpu", x.to_device("cpu"), or sm.set_default_device("cpu").',
        "autograd": "Write sm.grad(f), sm.value_and_grad(f), or y.gradient(x).",
        "func": "The transforms are sm.grad, sm.vmap, sm.jvp, sm.vjp, sm.jacobian and sm.hessian.",
        "compile": "Write sm.jit(f).",
        "lax": "Loops and branches are sm.scan, sm.fori_loop, sm.while_loop and sm.cond.",
        "numpy": "The functions are in sm itself: sm.sum, sm.where, …",
        "block_until_ready": "Write sm.realize(x, y).",
        "half": "Write sm.float16.",
        "double": "Write sm.float64.",
        "long": "Write sm.int64.",
        "short": "Write sm.int16.",
        "bool_": "Write sm.bool.",
        "FloatTensor": "Write sm.asarray(values, dtype=sm.float32).",
        "LongTensor": "Write sm.asarray(values, dtype=sm.int64).",
        "is_tensor": "Write isinstance(x, sm.Tensor).",
        "numel": "Write x.size.",
        "asnumpy": "Write x.numpy().",
        "set_default_dtype": "Give dtype= where tensors are made, or write model = model.astype(...).",
        "addmm": "Write c + a @ b.",
        "baddbmm": "Write c + a @ b.",
        "utils": "Batches are made by sm.data.DataLoader, sm.checkpoint(f) computes again instead of storing.",
    },
    "Tensor": {
        **dict.fromkeys(("backward", "grad", "retain_grad", "grad_fn"), _GRADIENTS),
        **dict.fromkeys(("requires_grad", "requires_grad_", "is_leaf"), _FLAGS),
        **dict.fromkeys(("cuda", "mps", "is_cuda"), _DEVICES),
        **dict.fromkeys(("is_contiguous", "strides", "stride", "storage", "data_ptr", "flags", "base"), _MEMORY),
        **dict.fromkeys(("zero_", "fill_", "copy_", "normal_", "uniform_", "fill", "set_", "put"), _CHANGED),
        **dict.fromkeys(("real", "imag", "conj", "H"), _COMPLEX),
        **dict.fromkeys(("to_numpy", "asnumpy", "values"), "Write x.numpy()."),
        **dict.fromkeys(("index_add", "index_copy", "index_fill"), "Write x.at[i].add(values), or set."),
        "register_hook": _HOOKS,
        "data": "Write x itself, or sm.stop_gradient(x).",
        "type": "Write x.astype(dtype).",
        "type_as": "Write x.astype(y.dtype).",
        "view_as": "Write x.reshape(y.shape).",
        "reshape_as": "Write x.reshape(y.shape).",
        "expand_as": "Write x.broadcast_to(y.shape).",
        "new_zeros": "Write sm.zeros(shape, dtype=x.dtype).",
        "new_ones": "Write sm.ones(shape, dtype=x.dtype).",
        "new_tensor": "Write sm.asarray(values, dtype=x.dtype).",
        "ndimension": "Write x.ndim.",
        "nelement": "Write x.size.",
        "element_size": "Write x.dtype.itemsize.",
        "block_until_ready": "Write x.realize().",
        "itemset": "Write x = x.at[i].set(value).",
    },
    "Updates": {
        **dict.fromkeys(("subtract", "sub"), "Write x.at[key].add(-values)."),
        **dict.fromkeys(("divide", "div"), "Write x.at[key].multiply(1 / values)."),
        **dict.fromkeys(("minimum", "min_"), "Write x.at[key].min(values)."),
        **dict.fromkeys(("maximum", "max_"), "Write x.at[key].max(values)."),
        **dict.fromkeys(("power", "pow"), "Write x.at[key].set(x[key] ** values)."),
        "apply": "Write x.at[key].set(f(x[key])).",
    },
    "Module": {
        **dict.fromkeys(("cuda", "cpu", "to"), _MODULE_DEVICES),
        **dict.fromkeys(("half", "float", "double", "bfloat16", "type"), _MODULE_TYPES),
        **dict.fromkeys(("register_forward_hook", "register_backward_hook", "register_full_backward_hook"), _HOOKS),
        **dict.fromkeys(("save", "load"), _SAVE),
        **dict.fromkeys(("children", "named_children"), "Write model.modules() or model.named_modules()."),
        **dict.fromkeys(("add_module", "register_module", "register_parameter"), "Write self.name = value."),
        **dict.fromkeys(("fit", "predict"), "Write the step yourself: docs/guide/training.md takes one apart."),
        "zero_grad": "Leave it out: gradients are results, new at each step.",
        "requires_grad_": "Write model.freeze() or model.unfreeze().",
        "apply": "Write model = model.map(f) for tensors, or for part in model.modules(): ...",
        "init": "A module makes its parameters when it is made: model = Net().",
        "compile": "Write f = sm.jit(lambda model, x: model(x)).",
    },
    "Updater": {
        **dict.fromkeys(("step", "minimize", "apply_gradients"), _STEP),
        "zero_grad": "Leave it out: gradients are results, new at each step.",
        "param_groups": "Write sm.optim.groups((choice, optimizer), ...); opt.lr is the rate.",
        "add_param_group": "Write sm.optim.groups((choice, optimizer), ...).",
        "state_dict": "The state is what opt.init and opt.update give: sm.save(state, path).",
        "load_state_dict": "The state is what opt.init and opt.update give: state = sm.load(state, path).",
    },
    "smelt.nn": {
        **dict.fromkeys(("init", "initializers"), _OWN_INITIALIZERS),
        **dict.fromkeys(("ParameterList", "ParameterDict"), _LISTS),
        "utils": _CLIPPING,
        "Dense": "Write sm.nn.Linear(in_features, out_features).",
        "LazyLinear": "Write sm.nn.Linear(in_features, out_features).",
        "BatchNorm": "Write sm.nn.BatchNorm2d, or one for another number of axes.",
        "SyncBatchNorm": "Write sm.nn.BatchNorm2d, or one for another number of axes.",
        "Embed": "Write sm.nn.Embedding.",
        "Buffer": "Write self.register_buffer(name, tensor).",
        "DataParallel": "Leave it out: all cores work on each call.",
    },
    "smelt.nn.functional": {
        "pad": "Write sm.pad(x, widths), with a pair (before, after) for each axis, the first axis first.",
        "layer_norm": "Write sm.layer_norm(x, weight, bias, axes=1): how many axes instead of their sizes.",
        "rms_norm": "Write sm.rms_norm(x, weight, axes=1): how many axes instead of their sizes.",
        "unfold": "Write sm.nn.Unfold(kernel_size)(x), or sm.unfold(x, kernel_size, stride=1).",
        "batch_norm": "Write sm.nn.BatchNorm2d(channels).",
        "group_norm": "Write sm.nn.GroupNorm(groups, channels).",
    },
    "smelt.optim": {
        "lr_scheduler": _SCHEDULES,
        **dict.fromkeys(("StepLR", "LambdaLR", "ExponentialLR", "CosineAnnealingLR", "OneCycleLR"), _SCHEDULES),
        "ReduceLROnPlateau": "Write sm.optim.ReduceOnPlateau(...).",
        **dict.fromkeys(("clip_grad_norm_", "clip_by_global_norm"), _CLIPPING),
        "apply_updates": _STEP,
        "swa_utils": "Write sm.optim.EMA(...) or sm.optim.Averaged(...).",
    },
    "smelt.optim.schedules": {
        "CosineAnnealingLR": "Write sm.optim.schedules.cosine(lr, T_max).",
        "StepLR": "Write sm.optim.schedules.step(lr, step_size).",
        "OneCycleLR": "Write sm.optim.schedules.one_cycle(max_lr, total_steps).",
    },
    "smelt.data": {
        "utils": "Its names are in sm.data itself: sm.data.DataLoader, …",
        "IterableDataset": "A dataset has a length and items by number; any iterable of batches does without a loader.",
        "Sampler": "Write sm.data.DataLoader(data, batch=32, shuffle=True, seed=0).",
        "default_collate": "Leave it out: a loader stacks numbers and arrays, part by part; collate= for others.",
    },
    "smelt.random": {
        **dict.fromkeys(("default_rng", "RandomState", "Generator"), _KEYS),
        "manual_seed": "Write sm.random.seed(0).",
        "PRNGKey": "Write sm.random.key(0).",
        "random": "Write sm.random.uniform(shape).",
        "standard_normal": "Write sm.random.normal(shape).",
        "integers": "Write sm.random.randint(low, high, shape).",
        "randperm": "Write sm.random.permutation(n).",
    },
}

# Other words for arguments: the first of these that a function has.
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "dim": ("axis",),
    "dims": ("axis", "axes"),
    "axes": ("axis",),
    "kernel_size": ("window", "axis"),
    "keepdim": ("keepdims",),
    **dict.fromkeys(("input", "a", "arr", "array", "ar", "m", "x1", "tensor"), ("x", "obj", "xs")),
    **dict.fromkeys(("other", "b", "x2"), ("y",)),
    **dict.fromkeys(("data", "object"), ("obj", "x")),
    **dict.fromkeys(("tensors", "arrays", "seq", "tup"), ("xs",)),
    **dict.fromkeys(("size", "newshape"), ("shape",)),
    "index": ("indices",),
    "indices": ("index",),
    "ddof": ("correction",),
    **dict.fromkeys(("a_min", "min_value"), ("min",)),
    **dict.fromkeys(("a_max", "max_value"), ("max",)),
    **dict.fromkeys(("pad", "pad_width"), ("widths",)),
    "constant_values": ("value",),
    "value": ("fill_value",),
    **dict.fromkeys(("diagonal", "offset"), ("k",)),
    **dict.fromkeys(("indices_or_sections", "sections"), ("sections_or_indices",)),
    "shifts": ("shift",),
    "reps": ("repetitions",),
    "start_dim": ("start_axis",),
    "end_dim": ("end_axis",),
    "end": ("stop", "high"),
    "steps": ("num",),
    "dtype": ("type",),
    "logits": ("input",),
    "labels": ("target",),
    "target": ("labels",),
    **dict.fromkeys(("loc", "mu"), ("mean",)),
    **dict.fromkeys(("scale", "sigma"), ("std",)),
    "lam": ("rate",),
    "minval": ("low",),
    "maxval": ("high",),
    "batch_size": ("batch",),
    "num_workers": ("workers",),
    "collate_fn": ("collate",),
    "prefetch_factor": ("prefetch",),
    "learning_rate": ("lr",),
    "epsilon": ("eps",),
    "units": ("out_features",),
    "filters": ("out_channels",),
    "rate": ("p",),
    "use_bias": ("bias",),
    **dict.fromkeys(("static_argnums", "static_argnames"), ("static",)),
    "donate_argnums": ("donate",),
    "in_dims": ("in_axes",),
    "out_dims": ("out_axes",),
    "true_fun": ("true_fn",),
    "false_fun": ("false_fn",),
}

# Words that ask for what is so anyway: every tensor can be differentiated by, none changes, memory is smelt's business.
IGNORED: Final = frozenset({"requires_grad", "inplace", "pin_memory", "persistent_workers", "memory_format"})

# Properties that are methods elsewhere, or are taken for some: what to write instead of a call.
CALLED: Final[dict[str, str]] = {
    "size": "size is a number, that of all elements: write x.shape[0] for an axis, x.shape for all.",
    "shape": "shape is a tuple: write x.shape[0] for an axis.",
    **dict.fromkeys(("ndim", "dtype", "device", "nbytes", "T", "mT"), "It is a property: leave the parentheses out."),
}

# Arguments that are given twice, by place and by name.
TWICE: Final[dict[str, str]] = {
    "lr": "An optimizer is made without parameters: opt = sm.optim.AdamW(lr=1e-3), then state = opt.init(model).",
    "batch": "Arrays that belong together come as one: DataLoader((x, y), batch=32).",
}

# Words whose meaning has another form here.
TOLD: Final[dict[str, str]] = {
    "out": "Tensors never change: use the result.",
    "where": "Write sm.where(mask, x, neutral) first.",
    "unbiased": "Write correction=1 to divide by n - 1, correction=0 for n.",
    "order": "Elements are in the order of rows: write x.mT.reshape(...) for columns.",
    "generator": "Write key=sm.random.key(0).",
    "rng": "Write key=sm.random.key(0).",
    "params": "An optimizer is made without parameters: state = opt.init(model) comes next.",
    "sampler": "Write shuffle=True, seed=0.",
    "device": "Write x.to_device(...) of the result.",
    "activation": "Write sm.relu(y), or another function, of the result.",
}
