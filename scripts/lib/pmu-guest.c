/* The only program of the guest of scripts/pmu-guest: counts a loop of known length with perf_event_open and with PAPI. */
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STEPS 3000000L
/* Each step is a subtraction and a branch. */
#define EXPECTED (2 * STEPS)

static void loop(void) {
    long left = STEPS;
    __asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(left) : : "cc");
}

static void by_perf(void) {
    struct perf_event_attr event;
    long long count = 0;
    memset(&event, 0, sizeof event);
    event.type = PERF_TYPE_HARDWARE;
    event.size = sizeof event;
    event.config = PERF_COUNT_HW_INSTRUCTIONS;
    event.disabled = 1;
    event.exclude_kernel = 1;
    event.exclude_hv = 1;
    int file = syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
    ioctl(file, PERF_EVENT_IOC_ENABLE, 0);
    loop();
    ioctl(file, PERF_EVENT_IOC_DISABLE, 0);
    if (file < 0 || read(file, &count, sizeof count) != sizeof count) {
        printf("perf fails\n");
        return;
    }
    printf("perf instructions %lld of %ld\n", count, EXPECTED);
}

static void by_papi(void) {
    void *papi = dlopen("libpapi.so.7.0", RTLD_NOW);
    if (!papi) {
        printf("papi fails: %s\n", dlerror());
        return;
    }
    int (*init)(int) = dlsym(papi, "PAPI_library_init");
    int (*create)(int *) = dlsym(papi, "PAPI_create_eventset");
    int (*code)(const char *, int *) = dlsym(papi, "PAPI_event_name_to_code");
    int (*add)(int, int) = dlsym(papi, "PAPI_add_event");
    int (*start)(int) = dlsym(papi, "PAPI_start");
    int (*stop)(int, long long *) = dlsym(papi, "PAPI_stop");
    int set = -1, event = 0, failed = 0;
    long long counts[2] = {0, 0};
    const char *names[2] = {"PAPI_TOT_INS", "PAPI_TOT_CYC"};
    failed |= init(0x07000000) != 0x07000000 || create(&set);
    for (int i = 0; i < 2; i++) failed |= code(names[i], &event) || add(set, event);
    failed |= start(set);
    loop();
    failed |= stop(set, counts);
    if (failed) {
        printf("papi fails: PAPI refuses its presets\n");
        return;
    }
    printf("papi instructions %lld of %ld\n", counts[0], EXPECTED);
    printf("papi cycles %lld\n", counts[1]);
}

int main(void) {
    mount("none", "/proc", "proc", 0, 0);
    mount("none", "/sys", "sysfs", 0, 0);
    FILE *setting = fopen("/proc/sys/kernel/perf_event_paranoid", "w");
    if (setting) {
        fputs("-1", setting);
        fclose(setting);
    }
    by_perf();
    by_papi();
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
