/* An NVML that plays the boards a test describes, so that the real pynvml can be driven without one.
 *
 * The text file named by NVML_STUB_STATE is read anew at each call. Its lines:
 *
 *     count 8                          driver 550.54.15
 *     init 9                           nvmlInit fails with this error
 *     gpu 3 name NVIDIA A30            gpu 3 uuid GPU-…       gpu 3 bus 65      gpu 3 mib 24576
 *     gpu 3 lost 1                     it answers nothing any more
 *     gpu 3 hang 1                     asking for its name never returns
 *     gpu 3 ancestor_4 40              level of the PCIe ancestor with GPU 4; 50 unless said
 *     gpu 3 link_0 4                   NVLink 0 leads to GPU 4, or to a `switch`
 *     gpu 3 mig 1                      gpu 3 mig_pending 0
 *     gpu 3 slice_0 3g.20gb 4          MIG instance 0, its profile and where it starts
 *     gpu 3 ecc 1                      gpu 3 ecc_errors 2     gpu 3 remap_failed 1     gpu 3 mhz 1980
 *
 * What is not said is not supported. A MIG device is a handle of its own kind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7,
       GPU_IS_LOST = 15 };
enum { MOST_GPUS = 16, MOST_SLICES = 8, MOST_LINKS = 36, PEER_GPU = 0, PEER_SWITCH = 2 };

typedef unsigned int uint;
typedef unsigned long long ull;
typedef struct { int gpu, slice; } device; /* slice: -1 for a whole GPU */
typedef struct { char legacy[16]; uint domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { ull total, free, used; } memory;
typedef struct { uint start, size; } placement;
typedef struct { device *device; uint id, profile; placement placement; } instance;

static device gpus[MOST_GPUS], slices[MOST_GPUS][MOST_SLICES];
static int initialized;

/* The rest of the last line that begins with `start`, into `out`; whether there is one. */
static int read_line(const char *start, char *out, size_t size) {
    const char *path = getenv("NVML_STUB_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    int found = 0;
    size_t length = strlen(start);
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, start, length) || line[length] != ' ') continue;
        snprintf(out, size, "%s", line + length + 1);
        out[strcspn(out, "\n")] = 0;
        found = 1;
    }
    if (file) fclose(file);
    return found;
}

static int about_gpu(int gpu, const char *key, char *out, size_t size) {
    char start[64];
    snprintf(start, sizeof start, "gpu %d %s", gpu, key);
    return read_line(start, out, size);
}

static int number_of(int gpu, const char *key, ull *out) {
    char text[256];
    if (!about_gpu(gpu, key, text, sizeof text)) return NOT_SUPPORTED;
    *out = strtoull(text, NULL, 0);
    return SUCCESS;
}

static int number32_of(int gpu, const char *key, uint *out) {
    ull wide;
    int code = number_of(gpu, key, &wide);
    if (code == SUCCESS) *out = (uint)wide;
    return code;
}

static int copy(const char *text, char *out, uint size) {
    if (strlen(text) + 1 > size) return TOO_SMALL;
    strcpy(out, text);
    return SUCCESS;
}

static int check(const device *own) {
    ull lost = 0;
    if (!initialized) return UNINITIALIZED;
    if (!own) return INVALID;
    number_of(own->gpu, "lost", &lost);
    return lost ? GPU_IS_LOST : SUCCESS;
}

#define CHECK(own) do { int code_ = check(own); if (code_) return code_; } while (0)

static uint count_of_gpus(void) {
    char text[32] = "0";
    read_line("count", text, sizeof text);
    return (uint)strtoul(text, NULL, 0);
}

API int nvmlInitWithFlags(uint flags) {
    char text[32];
    (void)flags;
    if (read_line("init", text, sizeof text)) return atoi(text);
    initialized++;
    return SUCCESS;
}

API int nvmlShutdown(void) {
    if (!initialized) return UNINITIALIZED;
    initialized--;
    return SUCCESS;
}

API const char *nvmlErrorString(int code) {
    return code == GPU_IS_LOST ? "GPU is lost" : "stub error";
}

API int nvmlSystemGetDriverVersion(char *out, uint size) {
    char text[64] = "550.54.15";
    if (!initialized) return UNINITIALIZED;
    read_line("driver", text, sizeof text);
    return copy(text, out, size);
}

API int nvmlDeviceGetCount_v2(uint *count) {
    if (!initialized) return UNINITIALIZED;
    *count = count_of_gpus();
    return SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(uint index, device **out) {
    if (!initialized) return UNINITIALIZED;
    if (index >= count_of_gpus() || index >= MOST_GPUS) return INVALID;
    gpus[index] = (device){ (int)index, -1 };
    CHECK(&gpus[index]);
    *out = &gpus[index];
    return SUCCESS;
}

API int nvmlDeviceGetUUID(device *own, char *out, uint size) {
    char text[96];
    CHECK(own);
    if (own->slice >= 0) snprintf(text, sizeof text, "MIG-%d-%d", own->gpu, own->slice);
    else if (!about_gpu(own->gpu, "uuid", text, sizeof text))
        snprintf(text, sizeof text, "GPU-%d", own->gpu);
    return copy(text, out, size);
}

static int slice_of(const device *own, char *profile, uint *start) {
    char key[32], text[96];
    snprintf(key, sizeof key, "slice_%d", own->slice);
    if (!about_gpu(own->gpu, key, text, sizeof text)) return NOT_FOUND;
    return sscanf(text, "%63s %u", profile, start) == 2 ? SUCCESS : INVALID;
}

API int nvmlDeviceGetName(device *own, char *out, uint size) {
    char name[96] = "NVIDIA A100-SXM4-40GB", profile[64], whole[192];
    uint start;
    ull hangs = 0;
    CHECK(own);
    number_of(own->gpu, "hang", &hangs);
    while (hangs) pause();
    about_gpu(own->gpu, "name", name, sizeof name);
    if (own->slice < 0) return copy(name, out, size);
    if (slice_of(own, profile, &start)) return NOT_FOUND;
    snprintf(whole, sizeof whole, "%s MIG %s", name, profile);
    return copy(whole, out, size);
}

API int nvmlDeviceGetMemoryInfo(device *own, memory *out) {
    ull mib = 40960;
    CHECK(own);
    number_of(own->gpu, "mib", &mib);
    *out = (memory){ mib << 20, mib << 20, 0 };
    return SUCCESS;
}

static void fill_pci(int gpu, pci *out) {
    ull bus = 16 + (ull)gpu;
    number_of(gpu, "bus", &bus);
    memset(out, 0, sizeof *out);
    out->bus = (uint)bus;
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", (uint)bus);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", (uint)bus);
}

API int nvmlDeviceGetPciInfo_v3(device *own, pci *out) {
    CHECK(own);
    fill_pci(own->gpu, out);
    return SUCCESS;
}

API int nvmlDeviceGetTopologyCommonAncestor(device *one, device *other, uint *level) {
    char key[32];
    CHECK(one);
    CHECK(other);
    snprintf(key, sizeof key, "ancestor_%d", other->gpu);
    *level = 50;
    number32_of(one->gpu, key, level);
    return SUCCESS;
}

/* Where an NVLink leads: the GPU, or -1 for a switch. */
static int link_to(const device *own, uint link, int *peer) {
    char key[32], text[32];
    if (link >= MOST_LINKS) return INVALID;
    snprintf(key, sizeof key, "link_%u", link);
    if (!about_gpu(own->gpu, key, text, sizeof text)) return NOT_SUPPORTED;
    *peer = strcmp(text, "switch") ? atoi(text) : -1;
    return SUCCESS;
}

API int nvmlDeviceGetNvLinkState(device *own, uint link, uint *is_active) {
    int peer, code;
    CHECK(own);
    code = link_to(own, link, &peer);
    if (code == SUCCESS) *is_active = 1;
    return code;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(device *own, uint link, uint *kind) {
    int peer, code;
    CHECK(own);
    code = link_to(own, link, &peer);
    if (code == SUCCESS) *kind = peer < 0 ? PEER_SWITCH : PEER_GPU;
    return code;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *own, uint link, pci *out) {
    int peer, code;
    CHECK(own);
    code = link_to(own, link, &peer);
    if (code == SUCCESS) fill_pci(peer < 0 ? 200 : peer, out);
    return code;
}

API int nvmlDeviceGetMigMode(device *own, uint *current, uint *pending) {
    int code;
    CHECK(own);
    code = number32_of(own->gpu, "mig", current);
    *pending = *current;
    if (code == SUCCESS) number32_of(own->gpu, "mig_pending", pending);
    return code;
}

API int nvmlDeviceGetMaxMigDeviceCount(device *own, uint *count) {
    CHECK(own);
    *count = MOST_SLICES;
    return SUCCESS;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(device *own, uint index, device **out) {
    char profile[64];
    uint start;
    CHECK(own);
    if (index >= MOST_SLICES) return INVALID;
    slices[own->gpu][index] = (device){ own->gpu, (int)index };
    *out = &slices[own->gpu][index];
    return slice_of(*out, profile, &start);
}

API int nvmlDeviceGetGpuInstanceId(device *own, uint *id) {
    CHECK(own);
    if (own->slice < 0) return INVALID;
    *id = (uint)own->slice;
    return SUCCESS;
}

API int nvmlDeviceGetGpuInstanceById(device *own, uint id, device **out) {
    return nvmlDeviceGetMigDeviceHandleByIndex(own, id, out);
}

API int nvmlGpuInstanceGetInfo(device *own, instance *out) {
    char profile[64];
    memset(out, 0, sizeof *out);
    out->id = (uint)own->slice;
    return slice_of(own, profile, &out->placement.start);
}

API int nvmlDeviceGetEccMode(device *own, uint *current, uint *pending) {
    int code;
    CHECK(own);
    code = number32_of(own->gpu, "ecc", current);
    *pending = *current;
    return code;
}

API int nvmlDeviceGetTotalEccErrors(device *own, uint kind, uint counter, ull *count) {
    CHECK(own);
    if (kind != 1 || counter != 1) return INVALID;
    return number_of(own->gpu, "ecc_errors", count);
}

API int nvmlDeviceGetRemappedRows(device *own, uint *good, uint *bad, uint *pending, uint *failed) {
    CHECK(own);
    *good = *bad = *pending = 0;
    return number32_of(own->gpu, "remap_failed", failed);
}

API int nvmlDeviceGetMaxClockInfo(device *own, uint kind, uint *mhz) {
    CHECK(own);
    return kind == 1 ? number32_of(own->gpu, "mhz", mhz) : NOT_SUPPORTED;
}
