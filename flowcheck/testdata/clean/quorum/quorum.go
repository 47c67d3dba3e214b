// Package quorum writes to replicas until most of them have it.
package quorum

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step timeout=5s retries=1 key=replica
func put(ctx context.Context, replica, key, value string) error { return ctx.Err() }

// write returns once more than half of the replicas have the value.
//
//flow:workflow
func write(ctx workflow.Context, replicas []string, key, value string) (int, error) {
	acks, fails := 0, 0
	var errs []error
	branches := make([]workflow.Case, 0, len(replicas))
	results := make(map[workflow.Case]*workflow.Future[workflow.None])
	for _, replica := range replicas {
		f := workflow.GoErr(ctx, func(ctx workflow.Context) error { return Put(ctx, replica, key, value) })
		branches = append(branches, f)
		results[f] = f
	}
	for acks <= len(replicas)/2 {
		if fails > len(replicas)/2 {
			return acks, errors.Join(errs...)
		}
		won, err := workflow.Select(ctx, branches...)
		if err != nil {
			return acks, err
		}
		if _, err := results[won].Get(ctx); err != nil {
			fails++
			errs = append(errs, err)
		} else {
			acks++
		}
		for i, b := range branches {
			if b == won {
				branches = append(branches[:i], branches[i+1:]...)
				break
			}
		}
	}
	return acks, nil
}
