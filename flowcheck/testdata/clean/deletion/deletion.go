// Package deletion removes what is known of a person.
package deletion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step key=system
func erase(ctx context.Context, system, person string) (int, error) { return len(system), ctx.Err() }

//flow:step
func confirm(ctx context.Context, person, report string) error { return ctx.Err() }

// Keep stops a deletion within its time.
var Keep = workflow.NewTopic[string]("keep")

// systems have data of people.
var systems = [...]string{"billing", "crm", "logs", "mail"}

// forget waits thirty days, and then asks each system until it has done it.
//
//flow:workflow retention=87600h
func forget(ctx workflow.Context, person string) (string, error) {
	if why, err := Keep.Receive(ctx, workflow.Timeout(30*24*time.Hour)); err == nil {
		return "kept: " + why, nil
	} else if !errors.Is(err, workflow.ErrReceiveTimeout) {
		return "", err
	}
	var report bytes.Buffer
	counts := make(map[string]int, len(systems))
	for _, system := range systems {
		n, err := Erase(ctx, system, person)
		for err != nil && ctx.Err() == nil {
			if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
				return "", err
			}
			n, err = Erase(ctx, system, person)
		}
		counts[system] = n
	}
	for _, system := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&report, "%s: %d\n", system, counts[system])
	}
	return report.String(), Confirm(ctx, person, report.String())
}
