"""Fourier transforms: `sm.fft`, the array API's extension of that name.

Takes tensors and axes; gives tensors, computed by ordinary tensor code: every transform has derivatives, runs under
`jit` and `vmap`, and is fused with what stands around it. Always holds: `ifft(fft(x))` is x but for rounding.
"""

from smelt.fft.places import fftfreq, fftshift, ifftshift, rfftfreq
from smelt.fft.transforms import fft, fftn, hfft, ifft, ifftn, ihfft, irfft, irfftn, rfft, rfftn
from smelt.names import door as _door

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

__getattr__, __dir__ = _door(__name__, __all__)
