"""CUDA C kernels and the code that launches them. Nothing here imports CuPy until a kernel is asked for.

- ``*.cu``: the kernels. ``common.cu`` is put before each of the others.
- `instances`: the names of their template instances, and the list of all that can be asked for.
- `geometry`: widths of packs, grids and blocks, chunks of a fold, in arithmetic on Python ints.
- `device`: the seam. `Device` is what the launcher needs of an array library; `CupyDevice` is the real one.
- `launch`: `CudaKernels`, the kernel contract on top of these.

Not yet run on a GPU: the same source and the same launch code are tested on the CPU.
"""
