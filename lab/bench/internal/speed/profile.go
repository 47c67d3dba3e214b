package speed

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
)

// memProfileRate is the average number of allocated bytes between samples of the allocation
// profile. It is lower than the default, because steps allocate little memory.
const memProfileRate = 16 << 10

// startProfiles starts the requested profiles. stop ends them and writes the files.
func startProfiles(o *options) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var err error
		for _, s := range stops {
			err = errors.Join(err, s())
		}
		return err
	}
	begin := func(path, what string, start func(*os.File) error, end func(*os.File) error) error {
		if path == "" {
			return nil
		}
		f, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("create the file of the %s: %w", what, err)
		}
		if err := start(f); err != nil {
			return errors.Join(fmt.Errorf("start the %s: %w", what, err), f.Close())
		}
		stops = append(stops, func() error { return errors.Join(end(f), f.Close()) })
		return nil
	}
	err = errors.Join(
		begin(o.cpuProfile, "CPU profile", func(f *os.File) error { return pprof.StartCPUProfile(f) }, func(*os.File) error {
			pprof.StopCPUProfile()
			return nil
		}),
		begin(o.trace, "trace", func(f *os.File) error { return trace.Start(f) }, func(*os.File) error {
			trace.Stop()
			return nil
		}),
		begin(o.memProfile, "profile of allocations", func(*os.File) error {
			runtime.MemProfileRate = memProfileRate
			return nil
		}, func(f *os.File) error {
			runtime.GC()
			return pprof.Lookup("allocs").WriteTo(f, 0)
		}),
	)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}
