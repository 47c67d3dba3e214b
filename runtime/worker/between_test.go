package worker_test

import (
	"context"
	"sync"
)

// barrier blocks the goroutines that call pass until open is called.
type barrier struct {
	once    sync.Once
	opened  chan struct{}
	arrived chan struct{} // receives one value for each blocked goroutine, at most 64
}

func newBarrier() *barrier {
	return &barrier{opened: make(chan struct{}), arrived: make(chan struct{}, 64)}
}

// pass blocks until the barrier is open or ctx ends.
func (g *barrier) pass(ctx context.Context) {
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	select {
	case <-g.opened:
	case <-ctx.Done():
	}
}

func (g *barrier) open() { g.once.Do(func() { close(g.opened) }) }
