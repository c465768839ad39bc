// The name of a stream without CUDA's headers: what the interfaces of kernels need to know of it. The same type as in
// <driver_types.h>.
#pragma once

struct CUstream_st;
using cudaStream_t = CUstream_st*;
