package dag_sinks

import "context"

//flow:dag result=write
type research struct{}

//flow:step
func (research) plan(ctx context.Context) (int, error) { return 0, nil }

//flow:step
func (research) write(ctx context.Context, plan int) (string, error) { return "", nil }

//flow:step
func (research) publish(ctx context.Context, write string) error { return nil }

// Nobody takes what it returns.
//
//flow:step
func (research) review(ctx context.Context, plan int) (bool, error) { return true, nil }

//flow:dag result=tell
type silent struct{}

//flow:step
func (silent) tell(ctx context.Context) error { return nil }
