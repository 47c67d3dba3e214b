package speed

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// reading contains the cumulative time, memory and calls that this process and the server have
// used.
type reading struct {
	cpu    time.Duration // CPU time of this process
	allocs float64       // number of allocated objects
	bytes  float64       // number of allocated bytes
	calls  float64       // number of calls of the store
	server usage
}

func (m *measurement) read(ctx context.Context) (reading, error) {
	var r reading
	var err error
	if r.server, err = m.bed.usage(ctx); err != nil {
		return r, err
	}
	if r.cpu, err = cpuTime(); err != nil {
		return r, err
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.allocs, r.bytes, r.calls = float64(mem.Mallocs), float64(mem.TotalAlloc), float64(m.tap.calls.Load())
	return r, nil
}

func (r reading) minus(s reading) reading {
	return reading{r.cpu - s.cpu, r.allocs - s.allocs, r.bytes - s.bytes, r.calls - s.calls, r.server.minus(s.server)}
}

func (r reading) plus(s reading) reading { return r.minus(reading{}.minus(s)) }

// memoryWatch samples the memory that the system has given to this process.
type memoryWatch struct {
	running atomic.Bool
	peak    atomic.Uint64
	stop    chan struct{}
	work    sync.WaitGroup
}

func watchMemory() *memoryWatch {
	m := &memoryWatch{stop: make(chan struct{})}
	m.work.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if m.running.Load() {
					m.look()
				}
			case <-m.stop:
				return
			}
		}
	})
	return m
}

func (m *memoryWatch) look() {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	now := s[0].Value.Uint64() - s[1].Value.Uint64()
	for {
		peak := m.peak.Load()
		if now <= peak || m.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

// resume starts sampling.
func (m *memoryWatch) resume() { m.running.Store(true) }

// pause takes a last sample and stops sampling.
func (m *memoryWatch) pause() {
	m.running.Store(false)
	m.look()
}

// end stops the sampling and returns the maximum.
func (m *memoryWatch) end() uint64 {
	close(m.stop)
	m.work.Wait()
	return m.peak.Load()
}
