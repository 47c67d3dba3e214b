package dag_skipped

import "context"

// What may be skipped is taken by pointer, or skips what takes it.
//
//flow:dag
type research struct{}

//flow:step
func (research) plan(ctx context.Context) ([]string, error) { return nil, nil }

//flow:step if=strict
func (research) review(ctx context.Context, plan *[]string) (string, error) { return "", nil }

func (research) strict(plan *[]string) bool { return true }

// Skipped, too, if the review is.
//
//flow:step
func (research) quote(ctx context.Context, review string) (string, error) { return review, nil }

// Never skipped.
//
//flow:step
func (research) write(ctx context.Context, review, quote *string) (string, error) { return "", nil }

//flow:step
func (research) print(ctx context.Context, write *string) error { return nil }

//flow:step each=plan
func (research) fetch(ctx context.Context, plan *string) (string, error) { return "", nil }

//flow:step onfail=ignore
func (research) clean(ctx context.Context) error { return nil }
