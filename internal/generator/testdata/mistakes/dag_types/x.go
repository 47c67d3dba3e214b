package dag_types

import "context"

type page struct{ Text string }

type pages []page

//flow:dag
type research struct{}

//flow:step
func (research) fetch(ctx context.Context) ([]page, error) { return nil, nil }

//flow:step
func (research) count(ctx context.Context) (int, error) { return 0, nil }

//flow:step
func (research) tell(ctx context.Context) error { return nil }

// Other names for what it has are fine.
//
//flow:step
func (research) named(ctx context.Context, fetch pages) error { return nil }

//flow:step
func (research) wrong(ctx context.Context, fetch []string, count int64) error { return nil }

//flow:step
func (research) element(ctx context.Context, fetch page) error { return nil }

//flow:step
func (research) none(ctx context.Context, tell string) error { return nil }

//flow:step after=fetch
func (research) twice(ctx context.Context, fetch []page) error { return nil }

//flow:step each=count
func (research) eachOfNone(ctx context.Context, count int) error { return nil }

//flow:step each=tell
func (research) eachOfNothing(ctx context.Context, tell int) error { return nil }

//flow:step each=fetch
func (research) eachWithout(ctx context.Context) error { return nil }

//flow:step each=fetch
func (research) eachOfAll(ctx context.Context, fetch []page) error { return nil }

//flow:step each=fetch if=some
func (research) eachAsked(ctx context.Context, fetch page) error { return nil }

func (research) some(fetch page) bool { return fetch.Text != "" }
