// Package research asks many sources, and writes a report.
package research

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Finding is what a source says.
type Finding struct {
	Source string
	Text   string
	Score  float64
}

//flow:step retries=3 timeout=1m
func look(ctx context.Context, source, topic string) ([]Finding, error) { return nil, ctx.Err() }

//flow:step timeout=5m
func write(ctx context.Context, topic string, findings []Finding) (string, error) {
	return topic, ctx.Err()
}

// best removes doubles, and keeps the n best.
func best(findings []Finding, n int) []Finding {
	seen := make(map[uint64]bool)
	var list []Finding
	for _, f := range findings {
		h := fnv.New64a()
		h.Write([]byte(strings.ToLower(f.Text)))
		if !seen[h.Sum64()] {
			seen[h.Sum64()] = true
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, byScore)
	return list[:min(n, len(list))]
}

func byScore(a, b Finding) int { return cmp.Compare(b.Score, a.Score) }

// report has what most sources say.
//
//flow:workflow
func report(ctx workflow.Context, topic string, sources []string) (string, error) {
	var all []Finding
	outcomes := workflow.MapSettled(ctx, sources, func(ctx workflow.Context, source string) ([]Finding, error) {
		return Look(ctx, source, topic)
	})
	for i, o := range outcomes {
		if o.Failed() {
			workflow.Logger(ctx).Warn("a source fails", "source", sources[i], "err", o.Err)
			continue
		}
		all = append(all, o.Value...)
	}
	return Write(ctx, topic, best(all, 20))
}
