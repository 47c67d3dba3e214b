package redisstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// readLog is a log as a check has read it, before the rest of its partition.
type readLog struct {
	header string // of the run, as of the same moment
	frames [][]byte
}

// headerField is the field of the metadata of a run that has its header, which changes with each frame.
const headerField = "H"

// readLogs reads the logs of runs, so many in one transaction that an answer is not large. Logs are most of a partition: without them,
// the transaction that reads everything else keeps a server busy for a short time only. A log that cannot be read is left out, to be
// read with the rest. Whether one has grown meanwhile, its header tells: see outdated.
func (s *Store) readLogs(ctx context.Context, p *partition, runs []string) (map[string]*readLog, error) {
	logs := map[string]*readLog{}
	for some := range slices.Chunk(runs, readBatch) {
		sizes, err := s.headersOf(ctx, p, some)
		if err != nil {
			return nil, err
		}
		for len(some) > 0 {
			n, bytes := 1, unpackHeader(sizes[0]).bytes
			for n < len(some) && bytes <= large {
				bytes += unpackHeader(sizes[n]).bytes
				n++
			}
			if err := s.readSomeLogs(ctx, p, some[:n], logs); err != nil {
				return nil, err
			}
			some, sizes = some[n:], sizes[n:]
		}
	}
	return logs, nil
}

// headersOf returns the headers of runs, also of hidden ones; empty: a run has none.
func (s *Store) headersOf(ctx context.Context, p *partition, runs []string) ([]string, error) {
	read := make([]headerReading, len(runs))
	err := s.transactionOf(ctx, p, func(tx redis.Pipeliner) {
		for i, run := range runs {
			read[i] = readHeader(ctx, tx, p, run)
		}
	})
	all := make([]string, len(runs))
	for i, r := range read {
		all[i] = r.header()
	}
	return all, err
}

// headerReading is the header of a run on its way from the server.
type headerReading struct{ seen, hidden *redis.StringCmd }

func readHeader(ctx context.Context, tx redis.Pipeliner, p *partition, run string) headerReading {
	return headerReading{tx.HGet(ctx, p.meta(run), headerField), tx.HGet(ctx, p.hidden(run), headerField)}
}

func (r headerReading) header() string { return cmp.Or(r.seen.Val(), r.hidden.Val()) }

func (s *Store) readSomeLogs(ctx context.Context, p *partition, runs []string, logs map[string]*readLog) error {
	headers, frames := make([]headerReading, len(runs)), make([]*redis.XMessageSliceCmd, len(runs))
	err := s.transactionOf(ctx, p, func(tx redis.Pipeliner) {
		for i, run := range runs {
			headers[i], frames[i] = readHeader(ctx, tx, p, run), tx.XRange(ctx, p.log(run), "-", "+")
		}
	})
	if err != nil {
		return err
	}
	for i, run := range runs {
		if header := headers[i].header(); header != "" && frames[i].Err() == nil {
			logs[run] = &readLog{header, framesOf(frames[i].Val())}
		}
	}
	return nil
}

// outdated returns the runs whose logs were read before they had their present headers, and forgets these logs. A log only ever grows by a
// commit, which changes the header in the same action: a run whose header is the same has the log that was read.
func (e *partitionState) outdated() map[string]bool {
	old := map[string]bool{}
	for run, l := range e.logs {
		if e.metaOf(run)[headerField] != l.header {
			old[run] = true
			delete(e.logs, run)
		}
	}
	return old
}

// frames returns the log of a run.
func (e *partitionState) frames(run string) [][]byte {
	if l := e.logs[run]; l != nil {
		return l.frames
	}
	if r := e.runs[run].frames; r != nil {
		return framesOf(r.Val())
	}
	return nil
}
