package worker_test

import (
	"context"
	"sync"
)

// barrier holds back those who come to it until it is opened.
type barrier struct {
	once    sync.Once
	opened  chan struct{}
	arrived chan struct{} // one value for each that came, at most 64
}

func newBarrier() *barrier {
	return &barrier{opened: make(chan struct{}), arrived: make(chan struct{}, 64)}
}

// pass blocks until the gate is open or ctx ends.
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
