"""Runs the package's CUDA kernels on the CPU, so that they and the code that launches them are tested where there is no GPU.

- `module.RawModule` compiles a ``.cu`` source with g++ through the headers in ``include`` and calls it on NumPy arrays.
- `device.EmulatedDevice` is the seam of `sparsetangent.kernels.cuda` on top of it: kernels and flags on NumPy arrays.
- `sanitized.run` starts Python under a sanitizer; `planted` holds kernels with bugs that must be seen.

``include/cuda_on_cpu.h`` says what the emulation models, what it catches, and what only a GPU can show.
"""
