// Package machines has machines as state machines are written.
package machines

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Signup is who wants an account.
type Signup struct{ Email string }

// Click is a message.
type Click struct{ Token string }

// Profile is what becomes of a signup.
type Profile struct {
	Email    string
	Reminded int
	Why      string
}

// The messages that a signup waits for.
var (
	Clicked  = workflow.NewTopic[Click]("clicked")
	Canceled = workflow.NewTopic[string]("canceled")
)

// ErrTaken is an address that has an account.
//
//flow:error
var ErrTaken = errors.New("taken")

var perDomain = limit.NewKeyed[string]("domain", limit.Config{AtOnce: 1})

// Mailer sends mail.
type Mailer interface{ Send(to, text string) error }

// onboarding leads somebody from the form to an account.
//
//flow:machine start=createAccount max=20 timeout=240h priority=len(in.Email)
type onboarding struct {
	Email    string
	Reminded int `json:"reminded"`

	mailer Mailer
	now    func() time.Time
}

// createAccount reserves the address.
//
//flow:step retries=2 backoff=constant(1ms) catch=giveUp fatal=ErrTaken key=in.Email
func (o *onboarding) createAccount(_ context.Context, in Signup) (step.Next[onboarding, Profile], error) {
	o.Email = in.Email
	if in.Email == "" {
		return step.Next[onboarding, Profile]{}, ErrTaken
	}
	return o.wait(), o.mailer.Send(o.Email, "click here")
}

// wait is no step: what it leads to is where the steps that call it lead.
func (o *onboarding) wait() step.Next[onboarding, Profile] {
	return o.awaitVerify(Clicked).Or(o.awaitGiveUpOn(o.Reminded, Canceled)).OrAfter(72*time.Hour, o.goRemind("click it"))
}

//flow:step uses=perDomain(click.Token)
func (o *onboarding) verify(_ context.Context, click Click) (step.Next[onboarding, Profile], error) {
	if click.Token == "" {
		return o.wait(), nil
	}
	return o.done(Profile{Email: o.Email, Reminded: o.Reminded}), nil
}

//flow:step catch=giveUp
func (o *onboarding) remind(_ context.Context, text string) (step.Next[onboarding, Profile], error) {
	if o.Reminded++; o.Reminded > 2 {
		return o.goGiveUpOn(o.Reminded, "no answer").After(time.Hour), nil
	}
	return o.wait(), o.mailer.Send(o.Email, text)
}

//flow:step
func (o *onboarding) giveUpOn(_ context.Context, after int, why string) (step.Next[onboarding, Profile], error) {
	return o.done(Profile{Email: o.Email, Reminded: after, Why: why}), nil
}

//flow:step
func (o *onboarding) giveUp(_ context.Context, why step.Failure) (step.Next[onboarding, Profile], error) {
	text := why.Error()
	if errors.Is(why, ErrTaken) {
		text = "taken"
	}
	return o.done(Profile{Email: o.Email, Reminded: o.Reminded, Why: text}), nil
}
