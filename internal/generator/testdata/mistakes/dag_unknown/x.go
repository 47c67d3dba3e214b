package dag_unknown

import "context"

//flow:dag result=wirte
type research struct {
	Question string
}

//flow:step
func (r research) fetch(ctx context.Context) ([]string, error) { return nil, nil }

//flow:step each=fetsh
func (r research) parse(ctx context.Context, fetch string) (int, error) { return 0, nil }

//flow:step after=prase,nothing if=strikt
func (r research) write(ctx context.Context, fetched []string, question string, helper int) (string, error) {
	return "", nil
}

// Not a step.
func (r research) helper(ctx context.Context) (int, error) { return 0, nil }

func (r research) strict(fetch []string, pasre []int) bool { return true }

//flow:step if=strict after=helper
func (r research) review(ctx context.Context, xyz int) error { return nil }

//flow:step if=maybe
func (r research) last(ctx context.Context) error { return nil }

//flow:step retries=x
func (r research) broken(ctx context.Context) (int, error) { return 0, nil }

//flow:step
func (r research) takesBroken(ctx context.Context, broken string) error { return nil }

//flow:step
func (r research) wrong(ctx string) (int, error) { return 0, nil }

// What needs a step that was reported is not.
//
//flow:step after=wrong
func (r research) takesWrong(ctx context.Context, wrong string) error { return nil }
