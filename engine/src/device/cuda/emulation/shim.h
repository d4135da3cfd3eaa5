// CUDA C on the host, for the tests of generated kernels: every thread of a block is a fiber, blocks run one after
// another, and arguments lie between pages that may not be touched.
//
// A launch runs twice: threads and blocks in order with a guard page behind every argument, then in reverse order with one
// before it. Results that differ between the two depend on the order of threads. Lane 0 of a warp holds its matrix
// fragments. Asynchronous copies arrive when their thread waits for them, and no earlier. Other inline PTX, clusters and
// timing are not covered, nor races that show in neither order.
#pragma once
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define alignas(n) __attribute__((aligned(n)))
#define __shared__ static

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

struct dim3 {
  unsigned x, y, z;
};

namespace shim {

enum class State { Runs, WaitsForBlock, WaitsForWarp, Ended };

struct Copy {
  void* to;
  const void* from;
  unsigned bytes;
  bool exists;
};

struct Fiber {
  jmp_buf at;
  ucontext_t start;
  State state;
  bool fresh;
  dim3 thread;
  unsigned lane, warp;
  // Asynchronous copies on their way, by group; the last group is not ended yet.
  std::vector<std::vector<Copy>> copies;
};

static const unsigned WARP = 32;
static const size_t STACK = 64 * 1024;

static jmp_buf scheduler;
static sigjmp_buf fault;
static std::vector<Fiber> fibers;
static Fiber* now;
static std::vector<uint64_t> exchanged;
static dim3 block, block_size, grid_size;
static void (*body)();
static const void* fault_address;

static void wait(State why) {
  Fiber* me = now;
  me->state = why;
  if (!_setjmp(me->at)) _longjmp(scheduler, 1);
}

static void enter() {
  body();
  now->state = State::Ended;
  _longjmp(scheduler, 1);
}

static void resume(Fiber& fiber) {
  now = &fiber;
  if (_setjmp(scheduler)) return;
  if (fiber.fresh) {
    fiber.fresh = false;
    setcontext(&fiber.start);
  }
  _longjmp(fiber.at, 1);
}

// The value that another lane of the warp has; a lane's own where `exists` is false.
template <class T>
static T exchange(T value, unsigned from, bool exists) {
  Fiber* me = now;
  uint64_t word = 0;
  memcpy(&word, &value, sizeof value);
  exchanged[me->warp * WARP + me->lane] = word;
  wait(State::WaitsForWarp);
  T found = value;
  if (exists) memcpy(&found, &exchanged[me->warp * WARP + from], sizeof found);
  wait(State::WaitsForWarp);
  return found;
}

// Runs the fibers of one block to their ends; false where some wait at a barrier that others never reach.
static bool run_block(bool reversed) {
  const unsigned n = fibers.size(), warps = (n + WARP - 1) / WARP;
  for (;;) {
    bool moved = false;
    for (unsigned w = 0; w < warps; ++w) {
      const unsigned warp = reversed ? warps - 1 - w : w;
      const unsigned first = warp * WARP, last = std::min(n, first + WARP);
      for (bool again = true; again;) {
        again = false;
        for (unsigned i = first; i < last; ++i) {
          Fiber& fiber = fibers[reversed ? last - 1 - (i - first) : i];
          if (fiber.state == State::Runs) resume(fiber), moved = true;
        }
        for (unsigned i = first; i < last; ++i)
          if (fibers[i].state == State::WaitsForWarp) fibers[i].state = State::Runs, again = true;
      }
    }
    bool alive = false, together = true;
    for (Fiber& fiber : fibers) {
      alive |= fiber.state != State::Ended;
      together &= fiber.state == State::WaitsForBlock;
    }
    if (!alive) return true;
    if (!together || !moved) return false;
    for (Fiber& fiber : fibers) fiber.state = State::Runs;
  }
}

static void run_grid(bool reversed, char* stacks, const char** problem) {
  const unsigned n = block_size.x * block_size.y * block_size.z;
  const unsigned blocks = grid_size.x * grid_size.y * grid_size.z;
  for (unsigned b = 0; b < blocks && !*problem; ++b) {
    const unsigned place = reversed ? blocks - 1 - b : b;
    block = {place % grid_size.x, place / grid_size.x % grid_size.y, place / grid_size.x / grid_size.y};
    for (unsigned i = 0; i < n; ++i) {
      Fiber& fiber = fibers[i];
      fiber.thread = {i % block_size.x, i / block_size.x % block_size.y, i / block_size.x / block_size.y};
      fiber.lane = i % WARP, fiber.warp = i / WARP;
      fiber.state = State::Runs, fiber.fresh = true;
      fiber.copies.assign(1, {});
      getcontext(&fiber.start);
      fiber.start.uc_stack.ss_sp = stacks + STACK * i;
      fiber.start.uc_stack.ss_size = STACK;
      fiber.start.uc_link = nullptr;
      makecontext(&fiber.start, enter, 0);
    }
    if (!run_block(reversed)) *problem = "waits at a barrier that not all threads reach";
  }
}

// A copy of an argument between two pages that may not be touched. It begins at the first page's end, or ends at the
// second's begin, as far as the alignment of device memory allows; what is left of a page has a pattern.
struct Guarded {
  static const size_t ALIGNMENT = 16;
  static const unsigned char PATTERN = 0xa5;
  char *pages, *data;
  size_t bytes, room, page;

  Guarded(const void* from, size_t size, bool at_end) : bytes(size) {
    page = sysconf(_SC_PAGESIZE);
    room = (bytes + page - 1) / page * page;
    pages = (char*)mmap(nullptr, room + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages, page, PROT_NONE);
    mprotect(pages + page + room, page, PROT_NONE);
    memset(pages + page, PATTERN, room);
    const size_t aligned = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    data = pages + page + (at_end ? room - aligned : 0);
    memcpy(data, from, bytes);
  }
  bool is_intact() const {
    for (char* p = pages + page; p < data; ++p)
      if ((unsigned char)*p != PATTERN) return false;
    for (char* p = data + bytes; p < pages + page + room; ++p)
      if ((unsigned char)*p != PATTERN) return false;
    return true;
  }
  void release() { munmap(pages, room + 2 * page); }
};

static void on_fault(int, siginfo_t* info, void*) {
  fault_address = info->si_addr;
  siglongjmp(fault, 1);
}

struct Argument {
  void* pointer;
  size_t bytes;
};

static char message[256];

// Runs a kernel in one order; the problem, if any.
static const char* run_once(bool reversed, char* stacks) {
  const char* problem = nullptr;
  struct sigaction action = {}, old_segv, old_bus;
  static char signal_stack[64 * 1024];
  stack_t alternative = {signal_stack, 0, sizeof signal_stack}, old_stack;
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaltstack(&alternative, &old_stack);
  sigaction(SIGSEGV, &action, &old_segv);
  sigaction(SIGBUS, &action, &old_bus);
  if (!sigsetjmp(fault, 1)) {
    run_grid(reversed, stacks, &problem);
  } else {
    problem = "touches memory outside its arguments";
  }
  sigaction(SIGSEGV, &old_segv, nullptr);
  sigaction(SIGBUS, &old_bus, nullptr);
  sigaltstack(&old_stack, nullptr);
  return problem;
}

// Runs a kernel in both orders; `start` takes the arguments' copies and gives what a thread does. The problem, if any.
static const char* launch(const char* name, dim3 grid, dim3 threads, std::vector<Argument>& arguments,
                          void (*start)(), std::vector<void*>& pointers) {
  grid_size = grid, block_size = threads, body = start;
  const unsigned n = threads.x * threads.y * threads.z;
  fibers.resize(n);
  exchanged.assign((n + WARP - 1) / WARP * WARP, 0);
  char* stacks = (char*)mmap(nullptr, STACK * n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::vector<std::vector<char>> first(arguments.size());
  const char* problem = nullptr;
  for (int order = 0; order < 2 && !problem; ++order) {
    std::vector<Guarded> copies;
    pointers.clear();
    for (Argument& argument : arguments) {
      copies.emplace_back(argument.pointer, argument.bytes, order == 0);
      pointers.push_back(copies.back().data);
    }
    problem = run_once(order == 1, stacks);
    for (size_t i = 0; i < copies.size(); ++i) {
      if (!problem && !copies[i].is_intact()) problem = "writes beside an argument";
      if (order == 0) first[i].assign(copies[i].data, copies[i].data + copies[i].bytes);
      if (!problem && memcmp(first[i].data(), copies[i].data, copies[i].bytes) != 0)
        problem = "has results that depend on the order of its threads";
      copies[i].release();
    }
  }
  munmap(stacks, STACK * n);
  for (size_t i = 0; i < arguments.size() && !problem; ++i)
    memcpy(arguments[i].pointer, first[i].data(), arguments[i].bytes);
  if (!problem) return nullptr;
  snprintf(message, sizeof message, "%s %s (block %u,%u,%u; thread %u,%u,%u)", name, problem, block.x, block.y, block.z,
           now ? now->thread.x : 0, now ? now->thread.y : 0, now ? now->thread.z : 0);
  return message;
}

}  // namespace shim

#define threadIdx (shim::now->thread)
#define blockIdx (shim::block)
#define blockDim (shim::block_size)
#define gridDim (shim::grid_size)

__attribute__((aligned(128))) unsigned char buf_dyn_shmem_ptr[256 * 1024];

static inline void __syncthreads() { shim::wait(shim::State::WaitsForBlock); }
static inline void __syncwarp(unsigned = ~0u) { shim::wait(shim::State::WaitsForWarp); }
static inline unsigned __activemask() {
  unsigned mask = 0;
  for (shim::Fiber& fiber : shim::fibers)
    if (fiber.warp == shim::now->warp && fiber.state != shim::State::Ended) mask |= 1u << fiber.lane;
  return mask;
}
template <class T>
static inline T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  return shim::exchange(value, shim::now->lane / width * width + lane % width, true);
}
template <class T>
static inline T __shfl_down_sync(unsigned, T value, unsigned by, int width = 32) {
  const unsigned lane = shim::now->lane;
  return shim::exchange(value, lane + by, lane % width + by < (unsigned)width);
}
template <class T>
static inline T __shfl_up_sync(unsigned, T value, unsigned by, int width = 32) {
  const unsigned lane = shim::now->lane;
  return shim::exchange(value, lane - by, lane % width >= by);
}
template <class T>
static inline T __shfl_xor_sync(unsigned, T value, unsigned mask, int = 32) {
  return shim::exchange(value, shim::now->lane ^ mask, true);
}

// Asynchronous copies, which the kernels' functions of inline assembly call outside a GPU.
static inline void async_copy(void* to, const void* from, unsigned bytes, bool exists) {
  shim::now->copies.back().push_back({to, from, bytes, exists});
}
static inline void async_commit() { shim::now->copies.emplace_back(); }
static inline void async_wait(unsigned in_flight) {
  auto& groups = shim::now->copies;
  while (groups.size() - 1 > in_flight) {
    for (shim::Copy& copy : groups.front()) {
      if (copy.exists) memcpy(copy.to, copy.from, copy.bytes);
      else memset(copy.to, 0, copy.bytes);
    }
    groups.erase(groups.begin());
  }
}

// Vectors.
#define SHIM_VECTORS(T, NAME)                                                          \
  struct __attribute__((aligned(sizeof(T) * 2))) NAME##2 { T x, y; };                  \
  struct NAME##3 { T x, y, z; };                                                       \
  struct __attribute__((aligned(sizeof(T) > 4 ? 16 : sizeof(T) * 4))) NAME##4 { T x, y, z, w; }; \
  static inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                    \
  static inline NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }            \
  static inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SHIM_VECTORS(float, float)
SHIM_VECTORS(double, double)
SHIM_VECTORS(signed char, char)
SHIM_VECTORS(unsigned char, uchar)
SHIM_VECTORS(short, short)
SHIM_VECTORS(unsigned short, ushort)
SHIM_VECTORS(int, int)
SHIM_VECTORS(unsigned, uint)
SHIM_VECTORS(long long, longlong)

// Mathematics. CUDA's max and min of floats take the number where the other is none, as C's do.
template <class T> static inline T max(T a, T b) { return a > b ? a : b; }
template <class T> static inline T min(T a, T b) { return a < b ? a : b; }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline float __int_as_float(int x) { float f; memcpy(&f, &x, 4); return f; }
static inline int __float_as_int(float x) { int i; memcpy(&i, &x, 4); return i; }
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __tanf tanf
#define __sinf sinf
#define __cosf cosf
template <class T> static inline T __ldg(const T* p) { return *p; }
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define CUDART_INF ((double)INFINITY)
#define CUDART_NAN ((double)NAN)

// Half precision.
typedef _Float16 half;
typedef half __half;
struct __attribute__((aligned(4))) half2 { half x, y; };
typedef half2 __half2;
struct __attribute__((aligned(8))) half4 { half x, y, z, w; };
static inline half4 make_half4(half x, half y, half z, half w) { return {x, y, z, w}; }
static inline half __float2half(float x) { return (half)x; }
static inline half __float2half_rn(float x) { return (half)x; }
static inline float __half2float(half x) { return (float)x; }
static inline half2 make_half2(half x, half y) { return {x, y}; }
static inline unsigned short __half_as_ushort(half x) { unsigned short bits; memcpy(&bits, &x, 2); return bits; }
static inline half __ushort_as_half(unsigned short x) { half h; memcpy(&h, &x, 2); return h; }
static inline unsigned __pack_half2(half x, half y) { half2 both = {x, y}; unsigned bits; memcpy(&bits, &both, 4); return bits; }
static inline half max(half a, half b) { return a > b ? a : b; }
static inline half min(half a, half b) { return a < b ? a : b; }
static inline bool __hgt(half a, half b) { return a > b; }
static inline bool __hlt(half a, half b) { return a < b; }
#define SHIM_HALF(NAME, OF) static inline half NAME(half x) { return (half)OF((float)x); }
SHIM_HALF(hexp, expf) SHIM_HALF(hlog, logf) SHIM_HALF(hlog2, log2f) SHIM_HALF(hsqrt, sqrtf) SHIM_HALF(hrsqrt, rsqrtf)
SHIM_HALF(hsin, sinf) SHIM_HALF(hcos, cosf) SHIM_HALF(htanh, tanhf) SHIM_HALF(htan, tanf) SHIM_HALF(hatan, atanf)
SHIM_HALF(herf, erff) SHIM_HALF(hfloor, floorf) SHIM_HALF(hceil, ceilf) SHIM_HALF(htrunc, truncf) SHIM_HALF(__habs, fabsf)
static inline half hpow(half x, half y) { return (half)powf((float)x, (float)y); }

// bfloat16: the upper half of a single-precision number, rounded to the nearest, to even between two.
struct nv_bfloat16 {
  unsigned short bits;
  nv_bfloat16() = default;
  nv_bfloat16(float x) {
    unsigned whole;
    memcpy(&whole, &x, 4);
    bits = x != x ? 0x7fff : (whole + 0x7fff + (whole >> 16 & 1)) >> 16;
  }
  operator float() const {
    unsigned whole = (unsigned)bits << 16;
    float x;
    memcpy(&x, &whole, 4);
    return x;
  }
};
#define SHIM_BFLOAT(OP) \
  static inline nv_bfloat16 operator OP(nv_bfloat16 a, nv_bfloat16 b) { return (float)a OP (float)b; }
SHIM_BFLOAT(+) SHIM_BFLOAT(-) SHIM_BFLOAT(*) SHIM_BFLOAT(/)
struct __attribute__((aligned(4))) nv_bfloat162 { nv_bfloat16 x, y; };
struct __attribute__((aligned(8))) nv_bfloat164 { nv_bfloat16 x, y, z, w; };
static inline nv_bfloat162 make_nv_bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }
static inline nv_bfloat164 make_nv_bfloat164(nv_bfloat16 x, nv_bfloat16 y, nv_bfloat16 z, nv_bfloat16 w) { return {x, y, z, w}; }
static inline nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
static inline float __bfloat162float(nv_bfloat16 x) { return x; }
static inline unsigned __pack_nv_bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return (unsigned)y.bits << 16 | x.bits; }
#define SHIM_BFLOAT_OF(NAME, OF) static inline nv_bfloat16 NAME(nv_bfloat16 x) { return OF((float)x); }
SHIM_BFLOAT_OF(hexp, expf) SHIM_BFLOAT_OF(hlog, logf) SHIM_BFLOAT_OF(hsqrt, sqrtf) SHIM_BFLOAT_OF(hrsqrt, rsqrtf)
SHIM_BFLOAT_OF(htanh, tanhf) SHIM_BFLOAT_OF(herf, erff) SHIM_BFLOAT_OF(hfloor, floorf) SHIM_BFLOAT_OF(hceil, ceilf)
SHIM_BFLOAT_OF(__habs, fabsf)

// Tensor cores: lane 0 of a warp holds the whole fragment.
namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
template <class Use, int M, int N, int K> struct extents;
template <int M, int N, int K> struct extents<matrix_a, M, N, K> { enum { rows = M, columns = K }; };
template <int M, int N, int K> struct extents<matrix_b, M, N, K> { enum { rows = K, columns = N }; };
template <int M, int N, int K> struct extents<accumulator, M, N, K> { enum { rows = M, columns = N }; };
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
  enum { rows = extents<Use, M, N, K>::rows, columns = extents<Use, M, N, K>::columns };
  T v[rows * columns];
};
static inline bool is_first() { return shim::now->lane == 0; }
template <class F, class T> void fill_fragment(F& f, T x) {
  if (is_first()) for (auto& e : f.v) e = x;
}
template <class F, class S> void load(F& f, const S* p, unsigned stride, bool by_columns) {
  __syncwarp();
  if (is_first())
    for (int i = 0; i < F::rows; ++i)
      for (int j = 0; j < F::columns; ++j) f.v[i * F::columns + j] = by_columns ? p[j * stride + i] : p[i * stride + j];
  __syncwarp();
}
template <class U, int M, int N, int K, class T, class S>
void load_matrix_sync(fragment<U, M, N, K, T, row_major>& f, const S* p, unsigned stride) { load(f, p, stride, false); }
template <class U, int M, int N, int K, class T, class S>
void load_matrix_sync(fragment<U, M, N, K, T, col_major>& f, const S* p, unsigned stride) { load(f, p, stride, true); }
template <class F, class S> void store_matrix_sync(S* p, const F& f, unsigned stride, layout_t layout) {
  __syncwarp();
  if (is_first())
    for (int i = 0; i < F::rows; ++i)
      for (int j = 0; j < F::columns; ++j) p[layout == mem_row_major ? i * stride + j : j * stride + i] = f.v[i * F::columns + j];
  __syncwarp();
}
// The products of half precision are summed in single precision within a fragment, as the hardware does.
template <class D, class A, class B, class C> void mma_sync(D& d, const A& a, const B& b, const C& c) {
  if (!is_first()) return;
  for (int i = 0; i < D::rows; ++i)
    for (int j = 0; j < D::columns; ++j) {
      float sum = (float)c.v[i * D::columns + j];
      for (int k = 0; k < A::columns; ++k) sum += (float)a.v[i * A::columns + k] * (float)b.v[k * B::columns + j];
      d.v[i * D::columns + j] = sum;
    }
}
}  // namespace wmma
}  // namespace nvcuda

// How TVM's host code calls a kernel.
struct TvmAny {
  int32_t type;
  uint32_t size;
  union {
    int64_t integer;
    double number;
    void* pointer;
  };
};
extern "C" void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
