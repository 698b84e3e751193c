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
_KEYS = "Write sm.random.seed(0), or key = sm.random.key(0) and draw with key=key."
_OWN_INITIALIZERS = "Write w = sm.random.xavier_uniform(w.shape): tensors never change; sm.random has them all."
_STEP = "Write model, state = opt.update(model, grads, state), after state = opt.init(model)."
_SCHEDULES = "Write lr=sm.optim.schedules.cosine(...), or another schedule: the rate is a function of the updates done."
_CLIPPING = "Write opt = sm.optim.chain(sm.optim.ClipNorm(1.0), sm.optim.AdamW(lr=1e-3))."
_HOOKS = "Leave it out: intermediate values are plain tensors, so return them."
_LISTS = "Use a list or a dictionary: tensors in it are found."
_SAVE = 'Write sm.save(model, "net.safetensors"), and model = sm.load(Net(), "net.safetensors").'

_ONE_MACHINE = "Leave it out: a program runs on one machine, and all its cores work on each call."
_LISTED = "`smelt devices` lists what there is; sm.get_default_device() is what is used."
_PATHS = "Write leaves, structure = sm.tree.flatten(tree): sm.tree.paths(structure) names the leaves."
_REGISTER = "Write sm.tree.register(...). Dataclasses and modules are trees as they are."
_SLICES = "Write x[i], or x[i + sm.arange(size)]: indices may be tensors."
_SLICE_UPDATES = "Write x.at[i].set(values), or x.at[i + sm.arange(size)].set(values): indices may be tensors."
_SCATTERED = "Write x.at[i].add(values), or set, multiply, min, max."
_ORDER = "Write sm.data.DataLoader(data, batch=32, shuffle=True, seed=0), or sm.data.Subset(data, indices) in front."


def _all(names: str, text: str) -> dict[str, str]:
    """One text for several names; {} in it is the name."""
    return {name: text.replace("{}", name) for name in names.split()}


_MATRICES: Final[dict[str, str]] = {
    "eig": "Write sm.linalg.eigh(x) for symmetric matrices, np.linalg.eig(x.numpy()) for others.",
    "eigvals": "Write sm.linalg.eigvalsh(x) for symmetric matrices, np.linalg.eigvals(x.numpy()) for others.",
    "lstsq": "Write sm.linalg.pinv(a) @ b, or q, r = sm.linalg.qr(a) and solve_triangular(r, q.mT @ b, upper=True).",
    **_all("lu lu_factor", "Write sm.linalg.solve(a, b): the factors themselves are not given out."),
    **_all("expm matrix_exp", "For symmetric matrices, w, v = sm.linalg.eigh(x) and (v * sm.exp(w)) @ v.mT."),
    **_all("inverse pinverse", "Write sm.linalg.inv(x) or sm.linalg.pinv(x)."),
    "logdet": "Write sm.linalg.slogdet(x).logabsdet.",
    "multi_dot": "Write a @ b @ c: cheap orders are found.",
    "cond": "Write s = sm.linalg.svdvals(x) and s[..., 0] / s[..., -1].",
    "LinAlgError": "Write sm.errors.LinearAlgebraError.",
}

# The module or class that is asked; the name; what to write. What is said of smelt counts for tensors, too.
NAMES: Final[dict[str, dict[str, str]]] = {
    "smelt": {
        **dict.fromkeys(("no_grad", "enable_grad", "inference_mode", "set_grad_enabled"), _NOT_RECORDED),
        **dict.fromkeys(("cuda", "mps", "backends", "device_put"), _DEVICES),
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
        # transforms and programs
        **_all("jacrev jacfwd", "Write sm.jacobian(f)(x)."),
        **_all("pmap shard_map", "Write sm.vmap(f): all cores work on each call."),
        **_all("distributed sharding multiprocessing make_mesh NamedSharding PartitionSpec", _ONE_MACHINE),
        **_all("eval_shape ShapeDtypeStruct", "Write f(x).shape: nothing is computed before values are asked for."),
        **_all("debug_nans set_anomaly_enabled errstate seterr", "Write with sm.debug.nans(): ... around the program."),
        **_all("set_num_threads get_num_threads", "Set SMELT_THREADS=4 in the environment."),
        **_all("set_printoptions printoptions", "Write np.{}(...), which counts for tensors, too."),
        **_all("devices device_count local_devices local_device_count default_backend", _LISTED),
        "remat": "Write sm.checkpoint(f).",
        "linearize": "Write y, slope = sm.jvp(f, (x,), (v,)).",
        "vectorize": "Write sm.vmap(f).",
        "switch": "Write sm.cond(i == 0, f, lambda x: sm.cond(i == 1, g, h, x), x).",
        "make_jaxpr": "Write sm.explain(f, x).",
        "disable_jit": "Call the function without sm.jit around it.",
        "pure_callback": "Write sm.callback(f, like, *args).",
        "device_get": "Write x.numpy().",
        "default_device": 'Write sm.set_default_device("cpu").',
        "enable_x64": "Leave it out: dtype=sm.float64 is there.",
        "set_float32_matmul_precision": "Leave it out: products of float32 are float32 in full.",
        "use_deterministic_algorithms": "Leave it out: the same program gives the same bits.",
        "named_scope": "Leave it out: errors and profiles name lines of yours.",
        **_all("amp autocast", "Write model = model.astype(sm.bfloat16)."),
        "GradScaler": "Write opt = sm.optim.LossScale(sm.optim.AdamW(lr=1e-3)).",
        "distributions": "Draw with sm.random; the densities are sums of a few functions: sm.lgamma, sm.log, sm.erf.",
        "scipy": "Functions such as erf and logsumexp are in sm itself; SciPy's take x.numpy().",
        # trees
        "tree_util": "Write sm.tree.map, sm.tree.flatten, sm.tree.unflatten or sm.tree.register.",
        "tree_map": "Write sm.tree.map(f, tree).",
        "tree_leaves": "Write sm.tree.flatten(tree)[0].",
        "tree_structure": "Write sm.tree.flatten(tree)[1].",
        "tree_flatten": "Write leaves, structure = sm.tree.flatten(tree).",
        "tree_unflatten": "Write sm.tree.unflatten(structure, leaves).",
        "tree_reduce": "Write functools.reduce(f, sm.tree.flatten(tree)[0]).",
        **_all("tree_map_with_path tree_flatten_with_path tree_leaves_with_path", _PATHS),
        **_all("register_pytree_node register_pytree_node_class register_dataclass", _REGISTER),
        # functions
        **_all(
            "cdist pairwise_distance pdist dist", "Write sm.norm(x[:, None] - y, axis=-1), without [:, None] for pairs."
        ),
        "cosine_similarity": "Write (sm.nn.functional.normalize(x) * sm.nn.functional.normalize(y)).sum(axis=-1).",
        **{name: text for name, text in _MATRICES.items() if name != "cond"},
        **_all("dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim slice_in_dim narrow", _SLICES),
        **_all("dynamic_update_slice dynamic_update_slice_in_dim dynamic_update_index_in_dim", _SLICE_UPDATES),
        **_all(
            "index_add index_put index_copy index_fill scatter_reduce scatter_mul scatter_max scatter_min", _SCATTERED
        ),
        **_all(
            "hanning hamming blackman bartlett kaiser loadtxt genfromtxt fromfile frombuffer",
            "Write sm.asarray(np.{}(...)).",
        ),
        **_all("fromfunction fromiter indices", "Write sm.asarray(np.{}(...))."),
        **_all("hann_window hamming_window", "Write sm.asarray(np.hanning(n)), or np.hamming."),
        **_all("tril_indices triu_indices diag_indices", "Write x[np.{}(n)]: tensors take arrays as indices."),
        **_all("mgrid ogrid cartesian_prod", "Write sm.meshgrid(sm.arange(n), sm.arange(m)), and sm.stack of these."),
        **_all("rand_like randn_like", "Write sm.random.normal(x.shape), or sm.random.uniform."),
        **_all("detach clone", "Write x.{}()."),
        **_all("ascontiguousarray asanyarray asfortranarray", "Write sm.asarray(x)."),
        **_all("is_floating_point issubdtype", "Write x.dtype.is_float, or is_integer, is_bool."),
        **_all("reduce_sum reduce_max reduce_min reduce_prod", "Write sm.sum(x, axis), or max, min, prod."),
        **_all("iota broadcasted_iota", "Write sm.arange(n)."),
        **_all("bitwise_not invert", "Write ~x."),
        **_all(
            "DoubleTensor IntTensor BoolTensor ByteTensor",
            "Write sm.asarray(values, dtype=sm.float64), or another dtype.",
        ),
        "dot_general": 'Write sm.einsum("bij,bjk->bik", x, y).',
        "conv_general_dilated": "Write sm.conv2d(x, weight, stride=1, padding=0): channels come before sizes.",
        "convert_element_type": "Write x.astype(sm.float32), or another dtype.",
        "broadcast_in_dim": "Write x[:, None], then sm.broadcast_to(x, shape).",
        "broadcast_tensors": "Write sm.broadcast_arrays(x, y).",
        "select_n": "Write sm.where(condition, x, y).",
        "map": "Write sm.vmap(f)(xs), or sm.scan to keep one after the other.",
        "logistic": "Write sm.sigmoid(x).",
        "rem": "Write sm.fmod(x, y).",
        "rev": "Write sm.flip(x, axis=0).",
        "mv": "Write a @ x.",
        "addcmul": "Write c + value * a * b.",
        "addcdiv": "Write c + value * a / b.",
        "swapdims": "Write sm.swapaxes(x, 0, 1).",
        "bucketize": "Write sm.digitize(x, edges), or sm.searchsorted(edges, x).",
        "histc": "Write sm.histogram(x, bins).",
        "kthvalue": "Write sm.sort(x)[k - 1].",
        "aminmax": "Write x.min() and x.max().",
        "var_mean": "Write x.var() and x.mean().",
        "std_mean": "Write x.std() and x.mean().",
        "clamp_min": "Write sm.maximum(x, least).",
        "clamp_max": "Write sm.minimum(x, most).",
        "rint": "Write sm.round(x).",
        "fabs": "Write sm.abs(x).",
        "identity": "Write sm.eye(n).",
        "promote_types": "Write sm.result_type(x, y).",
        "dtype": "Write x.dtype, or sm.DType for the class.",
        "Size": "Shapes are tuples.",
        "t": "Write x.T.",
        "fill_diagonal": "Write x.at[i, i].set(value), with i = sm.arange(n).",
        "put_along_axis": "Write sm.scatter(x, axis, indices, values).",
        **_all("put place putmask copyto", _CHANGED),
        "hvp": "Write sm.jvp(sm.grad(f), (x,), (v,))[1].",
        "trapz": "np.trapezoid takes tensors, and gives arrays.",
        "s_": "Write np.s_[...]: tensors take it as an index.",
        **_all("batch_norm instance_norm", "Write sm.nn.BatchNorm2d(channels)(x), or sm.nn.InstanceNorm2d."),
    },
    "smelt.debug": {
        **_all("detect_anomaly set_detect_anomaly debug_nans", "Write with sm.debug.nans(): ..."),
        "breakpoint": "Write sm.debug.print(x), or breakpoint() outside of jit.",
    },
    "smelt.tree": {
        **_all("tree_map", "Write sm.tree.map(f, tree)."),
        **_all("tree_flatten tree_leaves", "Write leaves, structure = sm.tree.flatten(tree)."),
        "tree_unflatten": "Write sm.tree.unflatten(structure, leaves).",
        "leaves": "Write sm.tree.flatten(tree)[0].",
        "structure": "Write sm.tree.flatten(tree)[1].",
        "reduce": "Write functools.reduce(f, sm.tree.flatten(tree)[0]).",
        "all": "Write all(sm.tree.flatten(tree)[0]).",
        **_all("map_with_path flatten_with_path leaves_with_path", _PATHS),
    },
    "Tensor": {
        **dict.fromkeys(("backward", "grad", "retain_grad", "grad_fn"), _GRADIENTS),
        **dict.fromkeys(("requires_grad", "requires_grad_", "is_leaf"), _FLAGS),
        **dict.fromkeys(("cuda", "mps", "is_cuda"), _DEVICES),
        **dict.fromkeys(("is_contiguous", "strides", "stride", "storage", "data_ptr", "flags", "base"), _MEMORY),
        **dict.fromkeys(("zero_", "fill_", "copy_", "normal_", "uniform_", "fill", "set_", "put"), _CHANGED),
        **_all("bernoulli_ exponential_ random_ apply_ map_", _CHANGED),
        **_all("pin_memory share_memory_ record_stream", "Leave it out: memory is smelt's business."),
        **_all("char byte short", "Write x.astype(sm.int8), sm.uint8 or sm.int16."),
        **_all("tobytes tofile ctypes", "Write x.numpy().{}."),
        "H": "Write x.mT.conj().",
        **dict.fromkeys(("to_numpy", "asnumpy", "values"), "Write x.numpy()."),
        "where": "Write sm.where(condition, x, other).",
        "register_hook": _HOOKS,
        "data": "Write x itself, or sm.stop_gradient(x).",
        "type": "Write x.astype(dtype).",
        "type_as": "Write x.astype(y.dtype).",
        "view_as": "Write x.reshape(y.shape).",
        "reshape_as": "Write x.reshape(y.shape).",
        "expand_as": "Write x.broadcast_to(y.shape).",
        "new_zeros": "Write sm.zeros(shape, dtype=x.dtype).",
        "new_ones": "Write sm.ones(shape, dtype=x.dtype).",
        "new_full": "Write sm.full(shape, value, dtype=x.dtype).",
        "new_empty": "Write sm.zeros(shape, dtype=x.dtype).",
        "itemsize": "Write x.dtype.itemsize.",
        **_all("get_device is_cpu", "Write x.device, a text."),
        "flat": "Write x.flatten().",
        "select": "Write x[:, i], with a : for each axis in front.",
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
        "forward": "Write model(x).",
        **_all("get_submodule get_parameter", "Write model.first.weight, or dict(model.named_parameters())[name]."),
        "register_forward_pre_hook": _HOOKS,
        "share_memory": _ONE_MACHINE,
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
        "utils": "Clipping is a step of an optimizer: sm.optim.chain(sm.optim.ClipNorm(1.0), sm.optim.AdamW(lr=1e-3)). "
        "All parameters as one vector: sm.concat([p.flatten() for p in model.parameters()]).",
        "Dense": "Write sm.nn.Linear(in_features, out_features).",
        "LazyLinear": "Write sm.nn.Linear(in_features, out_features).",
        "BatchNorm": "Write sm.nn.BatchNorm2d, or one for another number of axes.",
        "SyncBatchNorm": "Write sm.nn.BatchNorm2d, or one for another number of axes.",
        "Embed": "Write sm.nn.Embedding.",
        "Buffer": "Write self.register_buffer(name, tensor).",
        **_all("DataParallel parallel", _ONE_MACHINE),
        **_all("LazyConv1d LazyConv2d LazyConv3d", "Write sm.nn.Conv2d(in_channels, out_channels, kernel_size)."),
        **_all("LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d", "Write sm.nn.BatchNorm2d(channels)."),
        "CosineSimilarity": "Write sm.nn.functional.normalize(x), and the sum of products.",
        "PairwiseDistance": "Write sm.norm(x - y, axis=-1).",
        "MultiLabelSoftMarginLoss": "Write sm.nn.losses.binary_cross_entropy_with_logits(scores, targets).",
        "dot_product_attention": "Write sm.attention(query, key, value).",
        "compact": "Make layers in __init__, and call them in __call__.",
    },
    "smelt.nn.functional": {
        "pad": "Write sm.pad(x, widths), with a pair (before, after) for each axis, the first axis first.",
        "layer_norm": "Write sm.layer_norm(x, weight, bias, axes=1): how many axes instead of their sizes.",
        "rms_norm": "Write sm.rms_norm(x, weight, axes=1): how many axes instead of their sizes.",
        "unfold": "Write sm.nn.Unfold(kernel_size)(x), or sm.unfold(x, kernel_size, stride=1).",
        "batch_norm": "Write sm.nn.BatchNorm2d(channels).",
        "group_norm": "Write sm.nn.GroupNorm(groups, channels).",
        **_all(
            "upsample upsample_nearest upsample_bilinear", 'Write sm.interpolate(x, scale_factor=2, mode="bilinear").'
        ),
        "gumbel_softmax": "Write sm.softmax((scores + sm.random.gumbel(scores.shape)) / temperature, axis=-1).",
        "multi_head_attention_forward": "Write sm.nn.MultiheadAttention(embed_dim, num_heads)(x, x, x).",
    },
    "smelt.fft": {
        **_all("fft2 ifft2 rfft2 irfft2", "Write {}(x, axes=(-2, -1)) with n in the place of 2."),
    },
    "smelt.linalg": {
        **_MATRICES,
        "norm": "Write sm.linalg.vector_norm(x, ord=...) or sm.linalg.matrix_norm(x, ord=...).",
    },
    "smelt.optim": {
        "lr_scheduler": _SCHEDULES,
        **dict.fromkeys(("StepLR", "LambdaLR", "ExponentialLR", "CosineAnnealingLR", "OneCycleLR"), _SCHEDULES),
        "ReduceLROnPlateau": "Write sm.optim.ReduceOnPlateau(...).",
        **dict.fromkeys(("clip_grad_norm_", "clip_by_global_norm"), _CLIPPING),
        "apply_updates": _STEP,
        "global_norm": "Write sm.sqrt(sum((g * g).sum() for g in sm.tree.flatten(grads)[0])).",
        "LBFGS": "Write scipy.optimize.minimize(f, start, jac=True), f giving value and gradient.",
        "SparseAdam": "Write sm.optim.Adam(lr=1e-3).",
        "clip": "Write sm.optim.ClipValue(1.0).",
        "MultiSteps": "Write sm.optim.Accumulate(optimizer, every).",
        "adaptive_grad_clip": _CLIPPING,
        **_all("masked multi_transform", "Write sm.optim.groups((choice, optimizer), ...)."),
        "swa_utils": "Write sm.optim.EMA(...) or sm.optim.Averaged(...).",
    },
    "smelt.optim.schedules": {
        "CosineAnnealingLR": "Write sm.optim.schedules.cosine(lr, T_max).",
        "StepLR": "Write sm.optim.schedules.step(lr, step_size).",
        "OneCycleLR": "Write sm.optim.schedules.one_cycle(max_lr, total_steps).",
        "CosineAnnealingWarmRestarts": "Write sm.optim.schedules.cosine_restarts(lr, T_0).",
        "SequentialLR": "Write sm.optim.schedules.join([first, second], [milestone]).",
        **_all("LambdaLR MultiplicativeLR CyclicLR", "Write lr=lambda done: ...: a function of the updates done."),
        "ReduceLROnPlateau": "Write sm.optim.ReduceOnPlateau(...).",
    },
    "smelt.data": {
        "utils": "Its names are in sm.data itself: sm.data.DataLoader, …",
        "IterableDataset": "A dataset has a length and items by number; any iterable of batches does without a loader.",
        **_all(
            "Sampler RandomSampler SequentialSampler BatchSampler SubsetRandomSampler WeightedRandomSampler", _ORDER
        ),
        "DistributedSampler": _ONE_MACHINE,
        "ConcatDataset": "Write a class with __len__ and __getitem__, or concatenate the arrays.",
        "default_collate": "Leave it out: a loader stacks numbers and arrays, part by part; collate= for others.",
    },
    "smelt.random": {
        **dict.fromkeys(("default_rng", "RandomState", "Generator"), _KEYS),
        "manual_seed": "Write sm.random.seed(0).",
        **_all(
            "get_state set_state",
            "Draw with a key that you keep: key=key. sm.train.Checkpoint keeps the global one.",
        ),
        "PRNGKey": "Write sm.random.key(0).",
        "random": "Write sm.random.uniform(shape).",
        "standard_normal": "Write sm.random.normal(shape).",
        **_all("random_sample sample ranf", "Write sm.random.uniform(shape)."),
        "lognormal": "Write sm.exp(sm.random.normal(shape)).",
        "binomial": "Write sm.random.bernoulli(p, (n, *shape)).sum(axis=0).",
        "rademacher": "Write 2 * sm.random.randint(0, 2, shape) - 1.",
        "multivariate_normal": "Write mean + sm.random.normal((n, d)) @ np.linalg.cholesky(covariance).T.",
        "dirichlet": "Write g = sm.random.gamma(alpha, shape), then g / g.sum(axis=-1, keepdims=True).",
        "logistic": "Write sm.logit(sm.random.uniform(shape)).",
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
    "at": "at is indexed: write x.at[i].set(values).",
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
