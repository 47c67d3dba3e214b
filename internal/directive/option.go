package directive

import (
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/spelling"
)

// option describes the form of the value of an option, and the kinds of directives that accept the
// option.
type option struct {
	usage string // form shown in the documentation, such as name=VALUE
	kinds []Kind // kinds that accept the option
	flag  bool   // the option has no value
	set   func(*Directive, Text) *Problem
}

// options contains the options that this version of the runtime executes.
var options = map[string]option{
	"as":            {usage: "as=Ident", kinds: []Kind{Step, Workflow, Machine, DAG}, set: setAs},
	"name":          {usage: "name=full.name", kinds: []Kind{Package, Step, Workflow, Machine, DAG, Error}, set: setName},
	"register":      {usage: "register=Ident", kinds: []Kind{Package}, set: setRegister},
	"steps":         {usage: "steps=Ident", kinds: []Kind{Package}, set: setSteps},
	"client":        {usage: "client=ordersclient", kinds: []Kind{Package}, set: setClient},
	"key":           {usage: "key=EXPR", kinds: []Kind{Step}, set: setKey},
	"retries":       {usage: "retries=N", kinds: []Kind{Step}, set: setRetries},
	"backoff":       {usage: "backoff=exponential(200ms,30s)", kinds: []Kind{Step}, set: setBackoff},
	"jitter":        {usage: "jitter=0.2", kinds: []Kind{Step}, set: setJitter},
	"total":         {usage: "total=10m", kinds: []Kind{Step}, set: setTotal},
	"timeout":       {usage: "timeout=10s", kinds: []Kind{Step, Workflow, Machine, DAG}, set: setTimeout},
	"retention":     {usage: "retention=168h", kinds: []Kind{Workflow, Machine, DAG}, set: setRetention},
	"children":      {usage: "children=100", kinds: []Kind{Workflow}, set: setChildren},
	"schedule":      {usage: `schedule="30 2 * * * Europe/Zurich"`, kinds: []Kind{Workflow, Machine, DAG}, set: setSchedule},
	"priority":      {usage: "priority=EXPR", kinds: []Kind{Workflow, Machine, DAG}, set: setPriority},
	"fair":          {usage: "fair=EXPR:SHARE", kinds: []Kind{Workflow, Machine, DAG}, set: setFair},
	"startwithin":   {usage: "startwithin=30s", kinds: []Kind{Workflow, Machine, DAG}, set: setStartWithin},
	"rerun":         {usage: "rerun=3,exponential(1m,1h)", kinds: []Kind{Workflow, Machine, DAG}, set: setRerun},
	"singleton":     {usage: "singleton=order.ID,queue", kinds: []Kind{Workflow, Machine, DAG}, set: setSingleton},
	"debounce":      {usage: "debounce=doc.ID,10s,2m", kinds: []Kind{Workflow, Machine, DAG}, set: setDebounce},
	"batch":         {usage: "batch=100,5s", kinds: []Kind{Workflow}, set: setBatch},
	"queue":         {usage: "queue=Q", kinds: []Kind{Step, Workflow, Machine, DAG}, set: setQueue},
	"fatal":         {usage: "fatal=ErrX,*TypeY", kinds: []Kind{Step}, set: setFatal},
	"uses":          {usage: "uses=GPU:2,PerHost(url.Host)", kinds: []Kind{Step, Workflow, Machine, DAG}, set: setUses},
	"wire":          {usage: "wire=parameter:stored", kinds: []Kind{Step, Workflow}, set: setWire},
	"onfail":        {usage: "onfail=skip", kinds: []Kind{Step, DAG}, set: setOnFail},
	"after":         {usage: "after=fetch", kinds: []Kind{Step}, set: setAfter},
	"each":          {usage: "each=plan", kinds: []Kind{Step}, set: setEach},
	"if":            {usage: "if=strict", kinds: []Kind{Step}, set: setIf},
	"result":        {usage: "result=write", kinds: []Kind{DAG}, set: setResult},
	"start":         {usage: "start=step", kinds: []Kind{Machine}, set: setStart},
	"max":           {usage: "max=50", kinds: []Kind{Machine}, set: setMax},
	"catch":         {usage: "catch=step", kinds: []Kind{Step}, set: setCatch},
	"pin":           {usage: "pin", kinds: []Kind{Workflow, Machine, DAG}, flag: true, set: setPin},
	"nonidempotent": {usage: "nonidempotent", kinds: []Kind{Step}, flag: true, set: setNonIdempotent},
}

// later contains the options that are part of the vocabulary but that this version of the runtime
// does not execute. The parser rejects them, because ignoring an option would silently drop its
// effect.
var later = map[Kind][]string{
	Workflow: {"throttle", "ratelimit"},
}

// set stores one option in d. It returns false and the problem if the option is invalid.
func (d *Directive) set(w word) (Problem, bool) {
	if slices.Contains(later[d.Kind], w.name) {
		return unavailable(w.pos, w.name+" of "+prefix+string(d.Kind)), false
	}
	if d.Kind == Error && !w.hasValue && strings.Contains(w.name, ".") {
		p := d.addErrors(Text{w.name, w.pos})
		return p, p.What == ""
	}
	o, known := options[w.name]
	if !known || !slices.Contains(o.kinds, d.Kind) {
		return d.unknownOption(w, o), false
	}
	if d.Has(w.name) {
		return Problem{w.pos, w.name + " is given twice", "remove one of them"}, false
	}
	d.given[w.name] = w.pos
	switch {
	case o.flag && w.hasValue:
		return Problem{w.pos, w.name + " takes no value", "write " + w.name + " alone, or remove it"}, false
	case !o.flag && !w.hasValue, !o.flag && w.value.Value == "":
		fix := "write " + o.usage
		if !strings.Contains(o.usage, `"`) {
			fix += " without spaces"
		}
		return Problem{w.pos, w.name + " has no value", fix}, false
	}
	if p := o.set(d, w.value); p != nil {
		return *p, false
	}
	return Problem{}, true
}

func (d *Directive) unknownOption(w word, o option) Problem {
	p := Problem{Pos: w.pos, What: prefix + string(d.Kind) + " has no option " + w.name}
	own := d.Kind.Options()
	switch near := spelling.Nearest(w.name, own); {
	case len(o.kinds) > 0:
		p.Fix = "remove it: it belongs to " + prefix + string(o.kinds[0])
	case near != "":
		p.Fix = "did you mean " + near + "?"
	default:
		p.Fix = "use one of " + strings.Join(own, ", ")
	}
	return p
}

// Options returns the sorted names of the options that k accepts.
func (k Kind) Options() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if slices.Contains(options[name].kinds, k) {
			names = append(names, name)
		}
	}
	return names
}
