package dag_predicate

import "context"

type client struct{ ready bool }

func (c *client) ask() bool { return c.ready }

//flow:dag
type research struct {
	Tone string
	llm  *client
}

//flow:step
func (r *research) plan(ctx context.Context) (int, error) { return 0, nil }

//flow:step
func (r *research) tell(ctx context.Context) error { return nil }

//flow:step if=usesDependency
func (r *research) a(ctx context.Context, plan int) error { return nil }

func (r *research) usesDependency(plan int) bool { return r.Tone == "" && r.llm.ask() }

//flow:step if=usesItElsewhere
func (r *research) b(ctx context.Context, plan int) error { return nil }

func (r *research) usesItElsewhere(plan int) bool { return r.helps() }

func (r *research) helps() bool { return r.llm != nil && r.usesItElsewhere(1) }

//flow:step if=noBool
func (r *research) c(ctx context.Context) error { return nil }

func (r *research) noBool(plan int) string { return "" }

//flow:step if=fails
func (r *research) d(ctx context.Context) error { return nil }

func (r *research) fails(plan int) (bool, error) { return true, nil }

//flow:step if=nothing
func (r *research) e(ctx context.Context) error { return nil }

func (r *research) nothing() {}

//flow:step if=takesContext
func (r *research) f(ctx context.Context) error { return nil }

func (r *research) takesContext(ctx context.Context, plan int) bool { return true }

//flow:step if=unnamed
func (r *research) g(ctx context.Context) error { return nil }

func (r *research) unnamed(_ int) bool { return true }

//flow:step if=takesOther
func (r *research) h(ctx context.Context) error { return nil }

func (r *research) takesOther(plan string, tell bool, llm *client) bool { return true }

//flow:step if=plan
func (r *research) i(ctx context.Context) error { return nil }

//flow:step if=good
func (r *research) j(ctx context.Context) error { return nil }

// Without parameters it looks at the input only.
func (r *research) good() bool { return r.Tone == "good" }
