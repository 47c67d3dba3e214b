package emit

import (
	"go/types"
	"strconv"
	"strings"
	"time"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/model"
)

// value is a field of a struct literal.
type value struct {
	name string
	code jen.Code
}

// literal writes a struct literal of type t with the fields in order. If wide is true, each field
// is on its own line.
func literal(t *jen.Statement, values []value, wide bool) *jen.Statement {
	codes := make([]jen.Code, len(values))
	for i, v := range values {
		codes[i] = jen.Id(v.name).Op(":").Add(v.code)
	}
	return group(t, "{", "}", wide, codes)
}

// policy writes the options of a step directive. Missing options leave their fields zero, which
// selects the defaults of the runtime.
func (e *emitter) policy(s *model.Step) *jen.Statement {
	d := s.Directive
	var values []value
	if retry := e.retry(s); len(retry) > 0 {
		values = append(values, value{"Retry", lay(tabWidth+len("Timeout: "), 2, func(layout int) *jen.Statement {
			return literal(e.qual(workflowPath, "RetryPolicy"), retry, layout == 1)
		})})
	}
	if d.Timeout > 0 {
		values = append(values, value{"Timeout", e.duration(d.Timeout)})
	}
	if d.NonIdempotent {
		values = append(values, value{"NonIdempotent", jen.True()})
	}
	if len(s.Fatal) > 0 {
		values = append(values, value{"Fatal", e.fatal(s.Fatal)})
	}
	if d.Queue != "" {
		values = append(values, value{"Queue", jen.Lit(d.Queue)})
	}
	if len(s.Uses) > 0 {
		args, own := e.argsType(s), func(a jen.Code) *jen.Statement { return jen.Add(a) }
		if s.Machine != nil {
			args = e.qual(shimPath, "MachineArgs").Types(jen.Id(s.Machine.Type.Name()), args)
			own = func(a jen.Code) *jen.Statement { return jen.Add(a).Dot("Args") }
		}
		values = append(values, value{"Uses", e.uses(&s.Function, args, func(a jen.Code, i int) jen.Code { return own(a).Dot(s.Params[i].Field) })})
	}
	return literal(e.qual(shimPath, "Policy"), values, true)
}

func (e *emitter) retry(s *model.Step) []value {
	d := s.Directive
	var values []value
	if d.Has("retries") {
		values = append(values, value{"Attempts", jen.Lit(d.Retries + 1)})
	}
	values = append(values, e.backoff(d.Backoff)...)
	if d.Jitter > 0 {
		values = append(values, value{"Jitter", number(d.Jitter)})
	}
	if d.Total > 0 {
		values = append(values, value{"Total", e.duration(d.Total)})
	}
	return values
}

// backoff returns the fields of a RetryPolicy that control the growth of delays.
func (e *emitter) backoff(b directive.Backoff) (values []value) {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"Initial", b.Initial}, {"Increment", b.Increment}, {"Max", b.Max}} {
		if f.d > 0 {
			values = append(values, value{f.name, e.duration(f.d)})
		}
	}
	if b.Factor > 0 {
		values = append(values, value{"Factor", number(b.Factor)})
	}
	return values
}

func number(f float64) jen.Code { return jen.Op(strconv.FormatFloat(f, 'g', -1, 64)) }

// fatal writes a function that reports whether an error is in errs. A step is not retried after
// such an error.
func (e *emitter) fatal(errs []model.Fatal) *jen.Statement {
	err := e.local("err")
	cond := lay(2*tabWidth+len("return "), 2, func(layout int) *jen.Statement {
		cond := jen.Null()
		for i, f := range errs {
			if i > 0 {
				cond.Op("||")
			}
			if i > 0 && layout == 1 {
				cond.Line()
			}
			if f.Sentinel != nil {
				cond.Add(e.qual("errors", "Is")).Call(jen.Id(err), e.object(f.Sentinel))
			} else {
				cond.Add(e.qual(shimPath, "AsFatal")).Types(e.typ(f.Type)).Call(jen.Id(err))
			}
		}
		return cond
	})
	return jen.Func().Params(jen.Id(err).Error()).Bool().Block(jen.Return(cond))
}

var units = []struct {
	unit time.Duration
	name string
}{
	{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"},
	{time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}, {time.Nanosecond, "Nanosecond"},
}

// duration writes d as a multiple of the largest unit that divides it.
func (e *emitter) duration(d time.Duration) *jen.Statement {
	for _, u := range units {
		if d%u.unit != 0 {
			continue
		}
		unit := e.qual("time", u.name)
		if d == u.unit {
			return unit
		}
		return jen.Lit(int(d / u.unit)).Op("*").Add(unit)
	}
	return jen.Lit(0)
}

// workflowPolicy writes the options of a workflow directive.
func (e *emitter) workflowPolicy(w *model.Workflow) *jen.Statement {
	d := w.Directive
	var values []value
	if d.Queue != "" {
		values = append(values, value{"Queue", jen.Lit(d.Queue)})
	}
	if d.Timeout > 0 {
		values = append(values, value{"Timeout", e.duration(d.Timeout)})
	}
	if d.Retention > 0 {
		values = append(values, value{"Retention", e.duration(d.Retention)})
	}
	if d.Children > 0 {
		values = append(values, value{"Children", jen.Lit(d.Children)})
	}
	if d.Schedule != "" {
		values = append(values, value{"Schedule", jen.Lit(d.Schedule)})
	}
	input := func(a jen.Code, i int) jen.Code {
		if len(w.Params) == 1 && w.Graph == nil {
			return a
		}
		return jen.Add(a).Dot(w.Params[i].Field)
	}
	if w.Singleton != nil {
		values = append(values, value{"Singleton", e.singleton(w, input)}, value{"Active", e.qual(workflowPath, active[d.Active])})
	}
	if d.Has("debounce") || d.Has("batch") {
		values = append(values, value{"Collect", e.collect(w, input)})
	}
	if w.Priority != nil {
		values = append(values, value{"Priority", e.priority(w, input)})
	}
	if w.Fair != nil {
		values = append(values, value{"Fair", e.fair(w, input)})
	}
	if d.StartWithin > 0 {
		values = append(values, value{"StartWithin", e.duration(d.StartWithin)})
	}
	if d.Rerun > 0 {
		rerun := append([]value{{"Attempts", jen.Lit(d.Rerun + 1)}}, e.backoff(d.RerunBackoff)...)
		values = append(values, value{"Rerun", lay(tabWidth+len("Rerun: "), 2, func(layout int) *jen.Statement {
			return literal(e.qual(workflowPath, "RetryPolicy"), rerun, layout == 1)
		})})
	}
	if len(w.Uses) > 0 {
		values = append(values, value{"Uses", e.uses(&w.Function, e.in(w), input)})
	}
	if d.Pin {
		values = append(values, value{"Pin", jen.True()})
	}
	return literal(e.qual(shimPath, "WorkflowPolicy"), values, true)
}

// active maps the values of singleton= to the names of their constants.
var active = map[string]string{"skip": "UseActive", "replace": "CancelActive", "latest": "LatestActive", "queue": "QueueActive"}

// singleton writes a function that maps the input of w to the singleton key of its run.
func (e *emitter) singleton(w *model.Workflow, param func(input jen.Code, i int) jen.Code) *jen.Statement {
	f, body := e.overInput(w, w.Singleton, param)
	return e.qual(shimPath, "Singleton").Call(f.String().Block(jen.Return(e.qual(shimPath, "Key").Call(body))))
}

// collect writes the options that determine which starts of w share a run, and when the run begins.
func (e *emitter) collect(w *model.Workflow, param func(input jen.Code, i int) jen.Code) *jen.Statement {
	d := w.Directive
	key := jen.Func().Params(jen.Id("_").Add(e.in(w))).String().Block(jen.Return(jen.Lit("")))
	if w.Collect != nil {
		f, body := e.overInput(w, w.Collect, param)
		key = f.String().Block(jen.Return(e.qual(shimPath, "Key").Call(body)))
	}
	if d.Has("batch") {
		return e.qual(shimPath, "Batch").Call(key, jen.Lit(d.Full), e.duration(d.Most))
	}
	most := jen.Lit(0)
	if d.Most > 0 {
		most = e.duration(d.Most)
	}
	return e.qual(shimPath, "Debounce").Call(key, e.duration(d.Quiet), most)
}

// priority writes a function that maps the input of w to the priority of its run.
func (e *emitter) priority(w *model.Workflow, param func(input jen.Code, i int) jen.Code) *jen.Statement {
	f, body := e.overInput(w, w.Priority, param)
	if w.Priority.NeedsConversion(types.Typ[types.Int]) {
		body = jen.Int().Call(body)
	}
	return e.qual(shimPath, "Priority").Call(f.Int().Block(jen.Return(body)))
}

// fair writes a function that maps the input of w to the fairness key of its run and to the share
// of the key.
func (e *emitter) fair(w *model.Workflow, param func(input jen.Code, i int) jen.Code) *jen.Statement {
	f, key := e.overInput(w, w.Fair.Key, param)
	share := jen.Lit(1)
	if w.Fair.Share != nil {
		_, share = e.overInput(w, w.Fair.Share, param)
		if w.Fair.Share.NeedsConversion(types.Typ[types.Int]) {
			share = jen.Int().Call(share)
		}
	}
	return e.qual(shimPath, "Fair").Call(f.Params(jen.String(), jen.Int()).Block(jen.Return(e.qual(shimPath, "Key").Call(key), share)))
}

// overInput begins a function of the input of w. It returns the function and an expression for its
// body.
func (e *emitter) overInput(w *model.Workflow, k *model.Key, param func(input jen.Code, i int) jen.Code) (f, body *jen.Statement) {
	a, used := e.local("a"), false
	body = e.key(k, w.Params, func(i int) jen.Code {
		used = true
		return param(jen.Id(a), i)
	})
	if !used {
		a = "_"
	}
	return jen.Func().Params(jen.Id(a).Add(e.in(w))), body
}

// uses writes a function that maps the arguments of fn, of type args, to the limits that fn uses.
func (e *emitter) uses(fn *model.Function, args jen.Code, param func(args jen.Code, i int) jen.Code) *jen.Statement {
	a, keyed := e.local("a"), false
	var list []jen.Code
	for _, u := range fn.Uses {
		l := e.object(u.Limit)
		if u.Key != nil {
			keyed = true
			l = l.Dot("For").Call(e.key(u.Key, fn.Params, func(i int) jen.Code { return param(jen.Id(a), i) }))
		}
		list = append(list, l.Dot("Use").Call(jen.Lit(u.Weight)))
	}
	if !keyed {
		a = "_"
	}
	use := jen.Index().Add(e.qual(limitPath, "Use"))
	body := lay(2*tabWidth+len("return "), 2, func(layout int) *jen.Statement { return group(use.Clone(), "{", "}", layout == 1, list) })
	return e.qual(shimPath, "Uses").Call(jen.Func().Params(jen.Id(a).Add(args)).Index().Add(e.qual(limitPath, "Use")).Block(jen.Return(body)))
}

// quoteTag returns a struct tag as a string literal, in backquotes if possible.
func quoteTag(tag string) string {
	if strings.ContainsAny(tag, "`\n") {
		return strconv.Quote(tag)
	}
	return "`" + tag + "`"
}

// isNone reports whether t is workflow.None.
func isNone(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == workflowPath && named.Obj().Name() == "None"
}
