package dag_options

import "context"

//flow:dag onfail=skip schedule="every 1h" batch=10,5s priority=Rank singleton=Nobody key=x children=5
type research struct {
	Question string
	llm      *int
}

//flow:step onfail=finish key=r.llm
func (r *research) plan(ctx context.Context) (string, error) { return "", nil }

//flow:step key=r after=plan,plan if=a.b each=
func (r *research) fetch(ctx context.Context) error { return nil }

//flow:step key=r.Question+plan
func (r *research) good(ctx context.Context, plan string) error { return nil }

//flow:step after=plan each=plan if=good onfail=skip
func outside(ctx context.Context) error { return nil }

//flow:workflow onfail=finish result=plan
func flow() {}
