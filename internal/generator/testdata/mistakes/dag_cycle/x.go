package dag_cycle

import "context"

// ring has a cycle through parameters, one through a condition, one through after=, and steps
// that need themselves.
//
//flow:dag
type ring struct{}

//flow:step
func (ring) a(ctx context.Context, c int) (int, error) { return c, nil }

//flow:step
func (ring) b(ctx context.Context, a int) (int, error) { return a, nil }

//flow:step
func (ring) c(ctx context.Context, b int) (int, error) { return b, nil }

//flow:step if=asks
func (ring) condition(ctx context.Context) (int, error) { return 0, nil }

func (ring) asks(later int) bool { return later > 0 }

//flow:step
func (ring) later(ctx context.Context, condition int) (int, error) { return condition, nil }

//flow:step after=second
func (ring) first(ctx context.Context) error { return nil }

//flow:step after=first
func (ring) second(ctx context.Context) error { return nil }

//flow:step
func (ring) self(ctx context.Context, self []string) ([]string, error) { return self, nil }

//flow:step after=waits
func (ring) waits(ctx context.Context) error { return nil }

//flow:step if=own
func (ring) asked(ctx context.Context) (bool, error) { return true, nil }

func (ring) own(asked bool) bool { return asked }
