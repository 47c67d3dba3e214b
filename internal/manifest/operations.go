package manifest

import (
	"go/ast"
	"go/constant"
	"go/types"
	"strconv"
	"strings"
)

// request is a call of a function or method of package workflow.
type request struct {
	call *ast.CallExpr
	recv value
	args []value // arguments without contexts
	ctx  *scope
	name string
}

func (r *request) arg(i int) value {
	if i < len(r.args) {
		return r.args[i]
	}
	return value{}
}

// operation evaluates a call of a function or method of package workflow.
func (x *walker) operation(e *ast.CallExpr, f *types.Func) value {
	r := &request{call: e, name: f.Name()}
	if f.Pkg().Path() == graphPath {
		r.name = "graph." + f.Name()
	}
	if recv := f.Signature().Recv(); recv != nil {
		r.name = receiverName(recv.Type()) + "." + f.Name()
		if sel, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr); ok {
			r.recv = x.expr(sel.X)
		}
	}
	args := x.args(e)
	if t := r.recv.fn; t != nil && t.target != nil {
		return x.target(e, t.target, f.Name(), args)
	}
	for _, a := range args {
		if a.ctx != nil {
			r.ctx = a.ctx
			continue
		}
		r.args = append(r.args, a)
	}
	if follow, ok := operations[r.name]; ok {
		return follow(x, r)
	}
	return x.other(r)
}

func receiverName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}

// other evaluates a call of a function that the table does not contain. The call counts as an
// operation, and its function arguments may contain further operations.
func (x *walker) other(r *request) value {
	o := &Op{Op: "call", Name: r.name, Args: []string{}}
	if r.recv.text != "" {
		o.Args = append(o.Args, r.recv.text)
	}
	for _, a := range r.args {
		if a.fn == nil {
			o.Args = append(o.Args, a.text)
			continue
		}
		o.Body = append(o.Body, &Op{Op: "case", Body: x.callback(r.call, a, []value{{ctx: &scope{}}, text("item")})})
	}
	x.emit(o, r.call.Pos())
	name := x.numbered(r.name)
	return value{text: name, parts: []value{text(name), text(name + ".err")}}
}

// operations maps the functions and methods of package workflow to the functions that evaluate
// their calls.
var operations map[string]func(*walker, *request) value

func init() {
	operations = map[string]func(*walker, *request) value{
		"Sleep": (*walker).sleep, "SleepUntil": (*walker).sleepUntil,
		"Now": plain("now"), "Info": plain("info"), "LogLength": plain("log length"), "Logger": plain("logger"), "Tick": plain("tick"),
		"Context.Err": plain("ctx.err"), "Context.Value": (*walker).contextValue,
		"WithValue": (*walker).sameContext, "Detached": (*walker).sameContext,
		"WithCancel": (*walker).withCancel, "WithTimeout": (*walker).withTimeout, "WithDeadline": (*walker).withTimeout,
		"WithStepOptions": (*walker).withStepOptions, "Key": option("key"), "Queue": option("queue"),
		"Retry": option("retry"), "AttemptTimeout": option("timeout"), "Limit": option("limit"), "Timeout": option("limit"), "Token": option("token"),
		"WithID": option("id"), "WithTags": option("tags"), "WithParentClose": option("close"), "AtLeast": option("least"),
		"Go": (*walker).branch, "GoErr": (*walker).branch, "Future.Get": (*walker).get, "Child.Get": (*walker).get, "Future.Done": field("done"),
		"Child.Started": (*walker).started, "Child.ID": field("id"), "Child.Cancel": (*walker).cancelChild,
		"All": collect("all"), "Settled": collect("settled"), "First": collect("first"), "Any": collect("any"),
		"Map": fan("map"), "ForEach": fan("map"), "MapSettled": fan("map settled"),
		"Topic.Receive": (*walker).receive, "OpenHook.Receive": (*walker).receive, "Topic.TryReceive": (*walker).tryReceive,
		"Topic.Case": (*walker).receiveCase, "OpenHook.Case": (*walker).receiveCase, "ReceiveCase.Value": field("value"),
		"After": (*walker).after, "Select": (*walker).selectOne,
		"Topic.Name": field("name"), "Hook.Name": field("name"), "Value.Name": field("name"), "Ask.Name": field("name"), "Stream.Name": field("name"),
		"Topic.SendFrom": does("send", true), "Value.Set": does("set", true), "Stream.Write": does("write", false), "Stream.Close": does("close", false),
		"Hook.Open": (*walker).openHook, "OpenHook.Token": field("token"), "OpenHook.Dispose": does("dispose", false), "OpenHook.Answer": does("answer", true),
		"Ask.Handle": (*walker).handle, "CloseAsks": (*walker).closeAsks,
		"Compensate": (*walker).compensate, "Version": (*walker).version, "Record": (*walker).record,
		"Other": (*walker).otherRun, "StatusOf": reads(""), "Value.GetFrom": reads("get"), "Value.WaitFrom": reads("wait"), "Stream.ReadFrom": reads(""),
		"From": option("from"), "FromEnd": option("from the end"),
		"Rand": (*walker).random, "UUID": (*walker).uuid,
	}
}

func plain(name string) func(*walker, *request) value {
	return func(*walker, *request) value { return text(name) }
}

// field returns the evaluation of a call that returns a part of its receiver.
func field(name string) func(*walker, *request) value {
	return func(_ *walker, r *request) value { return text(r.recv.text + "." + name) }
}

// option returns the evaluation of a call that returns an option.
func option(name string) func(*walker, *request) value {
	return func(_ *walker, r *request) value {
		v := r.arg(0)
		return value{text: "option " + name + "=" + v.text, constant: v.constant, zero: v.zero, known: v.known}
	}
}

// optionIn returns the value of the named option in args, or "".
func optionIn(args []value, name string) string {
	for _, a := range args {
		if s, ok := strings.CutPrefix(a.text, "option "+name+"="); ok {
			return s
		}
	}
	return ""
}

// does returns the evaluation of a call that is an operation on its receiver.
func does(op string, withArgs bool) func(*walker, *request) value {
	return func(x *walker, r *request) value {
		o := &Op{Op: op, Name: r.recv.text}
		if withArgs {
			for _, a := range r.args {
				if !strings.HasPrefix(a.text, "option ") {
					o.Args = append(o.Args, literalText(a))
				}
			}
		}
		x.emit(o, r.call.Pos())
		return text(x.numbered(op) + ".err")
	}
}

// literalText returns the text of an argument with a mark if its value is statically known. The
// text then identifies the value.
func literalText(v value) string {
	switch {
	case v.zero:
		return Zero
	case v.known:
		return Literal + v.text
	}
	return v.text
}

func (x *walker) sleep(r *request) value {
	d := r.arg(0)
	switch {
	case d.constant != nil && constant.Sign(d.constant) <= 0:
		return value{text: "nil", zero: true} // The call is not recorded in logs.
	case d.constant != nil:
		x.emit(&Op{Op: "sleep"}, r.call.Pos())
	default:
		x.emit(&Op{Op: "sleep", Text: d.text}, r.call.Pos())
	}
	return text(x.numbered("sleep") + ".err")
}

// sleepUntil evaluates a call of SleepUntil. If the time is the current time plus a constant, its
// text is empty.
func (x *walker) sleepUntil(r *request) value {
	t := r.arg(0).text
	if d, ok := strings.CutPrefix(t, "now.Add("); ok {
		if n, err := strconv.ParseInt(strings.TrimSuffix(d, ")"), 10, 64); err == nil && n > 0 {
			t = ""
		}
	}
	x.emit(&Op{Op: "sleep", Text: t}, r.call.Pos())
	return text(x.numbered("sleep") + ".err")
}

func (x *walker) contextValue(r *request) value { return text("ctx.value(" + r.arg(0).text + ")") }

func (x *walker) sameContext(r *request) value { return value{text: "ctx", ctx: r.ctx} }

func (x *walker) withCancel(r *request) value {
	return value{text: "ctx", parts: []value{{text: "ctx", ctx: r.ctx}, text("end scope")}}
}

func (x *walker) withTimeout(r *request) value {
	x.emit(&Op{Op: "timeout"}, r.call.Pos())
	return value{text: "ctx", parts: []value{{text: "ctx", ctx: r.ctx}, text("end timeout")}}
}

func (x *walker) withStepOptions(r *request) value {
	s := *r.ctx
	if key := optionIn(r.args, "key"); key != "" {
		s.key = key
	}
	if queue := optionIn(r.args, "queue"); queue != "" {
		s.queue = queue
	}
	return value{text: "ctx", ctx: &s}
}

func (x *walker) branch(r *request) value {
	o := &Op{Op: "go"}
	x.emit(o, r.call.Pos())
	name := x.numbered("go")
	o.Body = x.callback(r.call, r.arg(0), []value{{text: "ctx", ctx: r.ctx}})
	return text(name)
}

func (x *walker) get(r *request) value {
	x.emit(&Op{Op: "get", Name: r.recv.text}, r.call.Pos())
	return outcome(r.recv.text, 2)
}

func (x *walker) started(r *request) value {
	x.emit(&Op{Op: "get", Name: r.recv.text + ".started"}, r.call.Pos())
	return text(r.recv.text + ".started.err")
}

func (x *walker) cancelChild(r *request) value {
	x.emit(&Op{Op: "cancel child", Name: r.recv.text}, r.call.Pos())
	return value{}
}

func collect(op string) func(*walker, *request) value {
	return func(x *walker, r *request) value {
		x.emit(&Op{Op: op, Text: strings.Join(textsOf(r.args), ", ")}, r.call.Pos())
		return outcome(x.numbered(op), 2)
	}
}

func fan(kind string) func(*walker, *request) value {
	return func(x *walker, r *request) value {
		o := &Op{Op: "map", Text: r.arg(0).text, Limit: optionIn(r.args, "limit")}
		if kind != "map" {
			o.Name = kind
		}
		x.emit(o, r.call.Pos())
		name := x.numbered("map")
		x.depth++
		item := text("item")
		if x.depth > 1 {
			item.text += strconv.Itoa(x.depth)
		}
		o.Body = x.callback(r.call, r.arg(1), []value{{text: "ctx", ctx: r.ctx}, item})
		x.depth--
		if r.name == "ForEach" {
			return text(name + ".err")
		}
		return outcome(name, 2)
	}
}

func (x *walker) receive(r *request) value {
	x.emit(&Op{Op: "receive", Name: r.recv.text}, r.call.Pos())
	return outcome(x.numbered("receive "+r.recv.text), 2)
}

func (x *walker) tryReceive(r *request) value {
	x.emit(&Op{Op: "try receive", Name: r.recv.text}, r.call.Pos())
	name := x.numbered("receive " + r.recv.text)
	return value{text: name, parts: []value{text(name), text(name + ".ok"), text(name + ".err")}}
}

func (x *walker) receiveCase(r *request) value { return text("case " + r.recv.text) }

func (x *walker) after(*request) value { return text(x.next("after")) }

func (x *walker) selectOne(r *request) value {
	x.emit(&Op{Op: "select", Args: textsOf(r.args)}, r.call.Pos())
	return outcome(x.numbered("select"), 2)
}

func (x *walker) openHook(r *request) value {
	o := &Op{Op: "hook", Name: r.recv.text}
	for _, a := range r.args {
		if t, ok := strings.CutPrefix(a.text, "option token="); ok {
			a.text = t
			o.Args = []string{literalText(a)}
		}
	}
	x.emit(o, r.call.Pos())
	return outcome(x.numbered(r.recv.text), 2)
}

func (x *walker) handle(r *request) value {
	o := &Op{Op: "ask", Name: r.recv.text}
	if f := r.arg(0).fn; f != nil && f.lit != nil {
		o.Text = x.literal(f)
	} else {
		o.Text = r.arg(0).text
	}
	x.emit(o, r.call.Pos())
	o.Body = x.callback(r.call, r.arg(1), []value{{text: "ctx", ctx: r.ctx}, text("question")})
	return value{}
}

// otherRun evaluates to a run with the given ID. If the ID belongs to a child, the run is that
// child.
func (x *walker) otherRun(r *request) value {
	id := r.arg(0).text
	if child, ok := strings.CutSuffix(id, ".id"); ok {
		return text(child)
	}
	return text("run " + id)
}

// reads returns the evaluation of a read from another run, which the runtime executes as a step.
// Its arguments are the run and the start position.
func reads(kind string) func(*walker, *request) value {
	return func(x *walker, r *request) value {
		o := &Op{Op: "read", Name: r.recv.text, Text: kind}
		if o.Name == "" {
			o.Name = "status"
		}
		for _, a := range r.args {
			if !strings.HasPrefix(a.text, "option limit=") {
				o.Args = append(o.Args, a.text)
			}
		}
		x.emit(o, r.call.Pos())
		name := x.numbered("read")
		if kind == "get" {
			return value{text: name, parts: []value{text(name), text(name + ".set"), text(name + ".err")}}
		}
		return outcome(name, 2)
	}
}

func (x *walker) closeAsks(r *request) value {
	x.emit(&Op{Op: "close asks"}, r.call.Pos())
	return value{}
}

func (x *walker) compensate(r *request) value {
	o := &Op{Op: "undo"}
	x.emit(o, r.call.Pos())
	o.Body = x.callback(r.call, r.arg(0), []value{{text: "ctx", ctx: r.ctx}})
	return text(x.numbered("undo"))
}

func (x *walker) version(r *request) value {
	change := r.arg(0)
	latest, known := intOf(r.arg(1))
	o := &Op{Op: "version", Name: change.text, Latest: latest, Least: optionIn(r.args, "least")}
	if change.constant != nil && change.constant.Kind() == constant.String {
		o.Name = constant.StringVal(change.constant)
	}
	x.emit(o, r.call.Pos())
	v := text("version(" + o.Name + ")")
	if known && change.constant != nil && latest >= 0 && latest < 100 {
		v.guard = &guard{change: o.Name, latest: latest, least: o.Least, number: true}
	}
	return v
}

func (x *walker) record(r *request) value {
	x.emit(&Op{Op: "record"}, r.call.Pos())
	return outcome(x.numbered("record"), 2)
}

func (x *walker) random(*request) value {
	return text("rand")
}

func (x *walker) uuid(r *request) value {
	x.emit(&Op{Op: "draw", Name: "uuid"}, r.call.Pos())
	return text(x.numbered("draw"))
}
