/* A stand-in for NVIDIA's libnvidia-ml.so.1: its ABI for the calls that the profiler makes, its state from the
   text file that FAKE_NVML_STATE names, read again at every call. Lines, in any order within a device:

     init_error CODE               driver VERSION              fail FUNCTION CODE
     device                        (the lines after it are of this one)
     name TEXT                     uuid TEXT                   memory TOTAL RESERVED USED   (MiB)
     mig CURRENT                   mode N                      energy_mw N   power_mw N
     clocks SM MEM                 reasons MASK                util GPU MEMORY
     process PID MIB KIND NAME     (KIND C: compute, M: through MPS; MIB -1: not available)
     ring gpu|memory PERIOD_US CAPACITY CLOCK TYPE VALUE...    (CLOCK wall, boot or a shift of boot in us)
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long u64;
typedef struct { u64 stamp; union { double d; unsigned int ui; u64 ull; } value; } Sample;
typedef struct { unsigned int pid; u64 used; unsigned int gpu_instance, compute_instance; } Process;
typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned int version; u64 total, reserved, free, used; } MemoryV2;
typedef struct { unsigned int gpu, memory; } Rates;

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { DEVICES = 4, PROCESSES = 8, VALUES = 32, FAILURES = 16, TEXT = 128 };

typedef struct {
  int set, type, values;
  long period_us, capacity;
  char clock[TEXT];
  unsigned int value[VALUES];
} Ring;

typedef struct {
  char name[TEXT], uuid[TEXT];
  double total, reserved, used;
  int mig, mode, processes;
  long energy_mw, power_mw, sm, mem, util_gpu, util_memory;
  u64 reasons;
  Ring ring[2];
  struct { unsigned int pid; double mib; char kind; char name[TEXT]; } process[PROCESSES];
} Device;

static struct {
  int init_error, devices, failures;
  char driver[TEXT];
  struct { char function[TEXT]; int code; } failure[FAILURES];
  Device device[DEVICES];
} state;

static void read_ring(Device *device, const char *rest) {
  char which[TEXT];
  int at = 0;
  Ring ring = {0};
  if (sscanf(rest, "%127s %ld %ld %127s %d%n", which, &ring.period_us, &ring.capacity, ring.clock, &ring.type,
             &at) < 5)
    abort();
  for (int more; ring.values < VALUES && sscanf(rest + at, "%u%n", &ring.value[ring.values], &more) == 1; at += more)
    ring.values++;
  ring.set = 1;
  device->ring[strcmp(which, "memory") == 0] = ring;
}

static void read_state(void) {
  char line[1024], key[TEXT];
  const char *path = getenv("FAKE_NVML_STATE");
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) abort();
  memset(&state, 0, sizeof state);
  Device *device = NULL;
  while (fgets(line, sizeof line, file)) {
    int at = 0;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%127s %n", key, &at) < 1) continue;
    const char *rest = line + at;
    if (!strcmp(key, "init_error")) state.init_error = atoi(rest);
    else if (!strcmp(key, "driver")) strcpy(state.driver, rest);
    else if (!strcmp(key, "fail")) {
      sscanf(rest, "%127s %d", state.failure[state.failures].function, &state.failure[state.failures].code);
      state.failures++;
    } else if (!strcmp(key, "device")) {
      device = &state.device[state.devices++];
      device->mig = -1;
      device->energy_mw = device->power_mw = device->util_gpu = device->sm = -1;
    } else if (!device) abort();
    else if (!strcmp(key, "name")) strcpy(device->name, rest);
    else if (!strcmp(key, "uuid")) strcpy(device->uuid, rest);
    else if (!strcmp(key, "memory")) sscanf(rest, "%lf %lf %lf", &device->total, &device->reserved, &device->used);
    else if (!strcmp(key, "mig")) device->mig = atoi(rest);
    else if (!strcmp(key, "mode")) device->mode = atoi(rest);
    else if (!strcmp(key, "energy_mw")) device->energy_mw = atol(rest);
    else if (!strcmp(key, "power_mw")) device->power_mw = atol(rest);
    else if (!strcmp(key, "clocks")) sscanf(rest, "%ld %ld", &device->sm, &device->mem);
    else if (!strcmp(key, "reasons")) device->reasons = strtoull(rest, NULL, 0);
    else if (!strcmp(key, "util")) sscanf(rest, "%ld %ld", &device->util_gpu, &device->util_memory);
    else if (!strcmp(key, "process")) {
      int i = device->processes++;
      sscanf(rest, "%u %lf %c %127s", &device->process[i].pid, &device->process[i].mib, &device->process[i].kind,
             device->process[i].name);
    } else if (!strcmp(key, "ring")) read_ring(device, rest);
    else abort();
  }
  fclose(file);
}

static int begin(const char *function) {
  read_state();
  for (int i = 0; i < state.failures; i++)
    if (!strcmp(state.failure[i].function, function)) return state.failure[i].code;
  return OK;
}

#define BEGIN() do { int code_ = begin(__func__); if (code_) return code_; } while (0)
#define DEVICE(handle) (&state.device[(size_t)(handle) - 1])

static u64 now_us(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (u64)t.tv_sec * 1000000 + (u64)t.tv_nsec / 1000;
}

static int text(char *out, unsigned int length, const char *said) {
  if (strlen(said) >= length) return INSUFFICIENT_SIZE;
  strcpy(out, said);
  return OK;
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; BEGIN(); return state.init_error; }
int nvmlShutdown(void) { BEGIN(); return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the fake driver"; }
int nvmlSystemGetDriverVersion(char *out, unsigned int length) { BEGIN(); return text(out, length, state.driver); }

int nvmlSystemGetProcessName(unsigned int pid, char *out, unsigned int length) {
  BEGIN();
  for (int d = 0; d < state.devices; d++)
    for (int i = 0; i < state.device[d].processes; i++)
      if (state.device[d].process[i].pid == pid && state.device[d].process[i].name[0])
        return text(out, length, state.device[d].process[i].name);
  return NOT_FOUND;
}

int nvmlDeviceGetCount_v2(unsigned int *count) { BEGIN(); *count = (unsigned int)state.devices; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
  BEGIN();
  if ((int)index >= state.devices) return INVALID;
  *handle = (void *)(size_t)(index + 1);
  return OK;
}

int nvmlDeviceGetName(void *h, char *out, unsigned int length) { BEGIN(); return text(out, length, DEVICE(h)->name); }
int nvmlDeviceGetUUID(void *h, char *out, unsigned int length) { BEGIN(); return text(out, length, DEVICE(h)->uuid); }

#define BYTES(mib) ((u64)((mib) * 1048576.0))

int nvmlDeviceGetMemoryInfo(void *h, Memory *out) {
  BEGIN();
  Device *d = DEVICE(h);
  *out = (Memory){BYTES(d->total), BYTES(d->total - d->used - d->reserved), BYTES(d->used + d->reserved)};
  return OK;
}

int nvmlDeviceGetMemoryInfo_v2(void *h, MemoryV2 *out) {
  BEGIN();
  Device *d = DEVICE(h);
  if (out->version != (sizeof(MemoryV2) | 2 << 24)) return 25;
  out->total = BYTES(d->total);
  out->reserved = BYTES(d->reserved);
  out->used = BYTES(d->used);
  out->free = BYTES(d->total - d->used - d->reserved);
  return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(void *h, u64 *millijoules) {
  BEGIN();
  if (DEVICE(h)->energy_mw < 0) return NOT_SUPPORTED;
  *millijoules = now_us(CLOCK_BOOTTIME) / 1000 * (u64)DEVICE(h)->energy_mw / 1000;
  return OK;
}

int nvmlDeviceGetPowerUsage(void *h, unsigned int *milliwatts) {
  BEGIN();
  if (DEVICE(h)->power_mw < 0) return NOT_SUPPORTED;
  *milliwatts = (unsigned int)DEVICE(h)->power_mw;
  return OK;
}

int nvmlDeviceGetClockInfo(void *h, unsigned int type, unsigned int *mhz) {
  BEGIN();
  if (DEVICE(h)->sm < 0) return NOT_SUPPORTED;
  if (type != 1 && type != 2) return INVALID;
  *mhz = (unsigned int)(type == 1 ? DEVICE(h)->sm : DEVICE(h)->mem);
  return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *h, u64 *mask) { BEGIN(); *mask = DEVICE(h)->reasons; return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *mask) { BEGIN(); *mask = DEVICE(h)->reasons; return OK; }
int nvmlDeviceGetComputeMode(void *h, unsigned int *mode) { BEGIN(); *mode = (unsigned int)DEVICE(h)->mode; return OK; }

int nvmlDeviceGetMigMode(void *h, unsigned int *current, unsigned int *pending) {
  BEGIN();
  if (DEVICE(h)->mig < 0) return NOT_SUPPORTED;
  *current = *pending = (unsigned int)DEVICE(h)->mig;
  return OK;
}

int nvmlDeviceGetUtilizationRates(void *h, Rates *out) {
  BEGIN();
  if (DEVICE(h)->util_gpu < 0) return NOT_SUPPORTED;
  *out = (Rates){(unsigned int)DEVICE(h)->util_gpu, (unsigned int)DEVICE(h)->util_memory};
  return OK;
}

static int list(Device *d, int mps_only, unsigned int *count, Process *out) {
  unsigned int found = 0;
  for (int i = 0; i < d->processes; i++) {
    if (mps_only && d->process[i].kind != 'M') continue;
    if (out && found < *count)
      out[found] = (Process){d->process[i].pid,
                             d->process[i].mib < 0 ? ~0ULL : BYTES(d->process[i].mib), ~0u, ~0u};
    found++;
  }
  int fits = out ? found <= *count : found == 0;
  *count = found;
  return fits ? OK : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned int *count, Process *out) {
  BEGIN();
  return list(DEVICE(h), 0, count, out);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, unsigned int *count, Process *out) {
  BEGIN();
  return list(DEVICE(h), 1, count, out);
}

/* The ring holds the last CAPACITY - 1 whole periods at their places modulo CAPACITY, so it comes out of order
   once it has wrapped, and one unused entry, stamped 0. Asked without room, it tells its capacity. */
int nvmlDeviceGetSamples(void *h, unsigned int type, u64 last_seen, int *value_type, unsigned int *count, Sample *out) {
  BEGIN();
  if (type != 1 && type != 2) return NOT_SUPPORTED;
  Ring *ring = &DEVICE(h)->ring[type == 2];
  if (!ring->set) return NOT_SUPPORTED;
  int wall = !strcmp(ring->clock, "wall"), boot = !strcmp(ring->clock, "boot");
  u64 now = now_us(wall ? CLOCK_REALTIME : CLOCK_BOOTTIME) + (wall || boot ? 0 : strtoull(ring->clock, NULL, 10));
  u64 newest = now / (u64)ring->period_us;
  if (!ring->values || newest * (u64)ring->period_us <= last_seen) return NOT_FOUND;
  if (!out) {
    *count = (unsigned int)ring->capacity;
    return OK;
  }
  if ((long)*count < ring->capacity) return INSUFFICIENT_SIZE;
  unsigned int filled = 0;
  u64 oldest = newest - (u64)ring->capacity + 2;
  for (long place = 0; place < ring->capacity; place++) {
    u64 k = oldest + ((u64)place + (u64)ring->capacity - oldest % (u64)ring->capacity) % (u64)ring->capacity;
    u64 stamp = k > newest ? 0 : k * (u64)ring->period_us;
    if (stamp && stamp <= last_seen) continue;
    Sample sample = {stamp, {.ull = 0}};
    unsigned int value = ring->value[k % (u64)ring->values];
    if (ring->type == 0 && ring->values) sample.value.d = value;
    else sample.value.ui = value;
    out[filled++] = sample;
  }
  *value_type = ring->type;
  *count = filled;
  return OK;
}
