package speed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// row is the log of a run for the measurement of the limit. It contains the position of its end and
// the next frame.
type row struct {
	id        string
	n         uint64
	prev, cid event.CommitID
}

// shape describes the commits of the worker. The limit is measured with commits of the same shape.
type shape struct {
	writers int // number of concurrent calls
	batch   int // number of commits per call
	bytes   int // number of bytes per frame
}

// limit measures how many conditional appends per second the store executes without the engine.
func limit(ctx context.Context, b bed, s shape, d time.Duration) (perSecond float64, err error) {
	frame := make([]byte, s.bytes)
	for i := range frame {
		frame[i] = byte('a' + i%26)
	}
	lanes := make([][]*row, s.writers)
	var all []*row
	for w := range lanes {
		for range s.batch {
			lanes[w] = append(lanes[w], &row{id: event.NewToken().String() + fmt.Sprintf("-%d", len(all)), cid: event.NewCommitID()})
			all = append(all, lanes[w][len(lanes[w])-1])
		}
	}
	errs := make(chan error, s.writers)
	counts := make(chan int, s.writers)
	var work sync.WaitGroup
	start := time.Now()
	for _, rows := range lanes {
		work.Go(func() {
			n, err := appendFor(ctx, b, rows, frame, start.Add(d))
			counts <- n
			errs <- err
		})
	}
	work.Wait()
	elapsed := time.Since(start)
	sum := 0
	for range lanes {
		sum += <-counts
		if e := <-errs; e != nil && err == nil {
			err = e
		}
	}
	if err != nil {
		return 0, fmt.Errorf("measure the limit: %w", err)
	}
	if err := b.drop(ctx, all); err != nil {
		return 0, fmt.Errorf("measure the limit: %w", err)
	}
	return float64(sum) / elapsed.Seconds(), nil
}

// appendFor appends to all rows repeatedly until the given time, but at least once. It returns the
// number of appends.
func appendFor(ctx context.Context, b bed, rows []*row, frame []byte, until time.Time) (n int, err error) {
	for {
		if err := b.append(ctx, rows, frame); err != nil {
			return n, err
		}
		n += len(rows)
		for _, r := range rows {
			r.n, r.prev, r.cid = r.n+1, r.cid, event.NewCommitID()
		}
		if time.Now().After(until) {
			return n, nil
		}
	}
}
