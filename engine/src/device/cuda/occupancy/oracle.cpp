// Occupancy by NVIDIA's header: one line of input a question, one line of output an answer.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include "cuda_occupancy.h"

int main() {
    int capability, threads_sm, threads, registers;
    size_t shared_sm, reserved, shared;
    while (std::scanf("%d %d %zu %zu %d %d %zu", &capability, &threads_sm, &shared_sm, &reserved, &threads, &registers,
                      &shared) == 7) {
        cudaOccDeviceProp gpu;
        std::memset(&gpu, 0, sizeof gpu);
        gpu.computeMajor = capability / 10;
        gpu.computeMinor = capability % 10;
        gpu.maxThreadsPerBlock = 1024;
        gpu.maxThreadsPerMultiprocessor = threads_sm;
        gpu.regsPerBlock = gpu.regsPerMultiprocessor = 65536;
        gpu.warpSize = 32;
        gpu.sharedMemPerBlock = 49152;
        gpu.sharedMemPerMultiprocessor = shared_sm;
        gpu.numSms = 1;
        gpu.sharedMemPerBlockOptin = shared_sm - reserved;
        gpu.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes kernel;
        std::memset(&kernel, 0, sizeof kernel);
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = 0;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = shared;
        kernel.numBlockBarriers = 1;
        cudaOccDeviceState state;
        std::memset(&state, 0, sizeof state);
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        cudaOccResult result;
        std::memset(&result, 0, sizeof result);
        cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, threads, shared);
        std::printf("%d %d %u\n", error, result.activeBlocksPerMultiprocessor, result.limitingFactors);
    }
}
