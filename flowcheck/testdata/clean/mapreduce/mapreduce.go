// Package mapreduce counts the words of many texts.
package mapreduce

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step key=url
func count(ctx context.Context, url string) (map[string]int, error) { return nil, ctx.Err() }

//flow:step
func publish(ctx context.Context, top []string) error { return ctx.Err() }

func merge[K comparable](into, from map[K]int) {
	for k, n := range from {
		into[k] += n
	}
}

// top returns the n words that occur most.
func top(counts map[string]int, n int) []string {
	words := slices.Collect(maps.Keys(counts))
	sort.Slice(words, func(i, j int) bool {
		if counts[words[i]] != counts[words[j]] {
			return counts[words[i]] > counts[words[j]]
		}
		return words[i] < words[j]
	})
	return words[:min(n, len(words))]
}

// words counts all texts at once.
//
//flow:workflow
func words(ctx workflow.Context, urls []string) ([]string, error) {
	counts, err := workflow.Map(ctx, urls, Count, workflow.Limit(20))
	if err != nil {
		return nil, err
	}
	all := make(map[string]int)
	for _, c := range counts {
		merge(all, c)
	}
	best := top(all, 10)
	return best, Publish(ctx, best)
}
