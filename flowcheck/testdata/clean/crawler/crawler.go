// Package crawler follows links to a depth.
package crawler

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step timeout=20s key=page
func links(ctx context.Context, page string) ([]string, error) { return nil, ctx.Err() }

// sameHost keeps the links that stay.
func sameHost(base string, found []string) []string {
	b, err := url.Parse(base)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(found, func(link string) bool {
		u, err := b.Parse(link)
		return err != nil || u.Host != b.Host
	})
}

// crawl goes level by level.
//
//flow:workflow
func crawl(ctx workflow.Context, start string, depth int) ([]string, error) {
	seen := map[string]bool{start: true}
	level := []string{start}
	for range depth {
		found, err := workflow.Map(ctx, level, Links, workflow.Limit(8))
		if err != nil {
			return nil, err
		}
		next := make(map[string]struct{})
		for i, list := range found {
			for _, link := range sameHost(level[i], list) {
				if !seen[link] {
					seen[link] = true
					next[link] = struct{}{}
				}
			}
		}
		level = level[:0]
		for link := range next {
			level = append(level, link)
		}
		slices.Sort(level)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}
