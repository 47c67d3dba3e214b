package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Signup is the input of a run.
type Signup struct{ Email string }

// Click is the message that the user has followed the link in a mail.
type Click struct{ Token string }

// Profile is the result of a signup.
type Profile struct {
	Email     string
	Account   string
	Reminders int
	Refused   string // reason why there is no account; empty if there is one
}

// Clicked is the topic to which the web server sends clicks.
var Clicked = workflow.NewTopic[Click]("clicked")

// ErrBadAddress is returned for an address to which no mail can be sent.
//
//flow:error
var ErrBadAddress = errors.New("bad address")

// onboarding creates an account for a user. It verifies the address of the user by a link in a
// mail, and sends reminders.
//
//flow:machine start=createAccount max=20 timeout=720h
type onboarding struct {
	Email     string
	Account   string
	Token     string // secret part of the link
	Reminders int

	site *site
}

// createAccount reserves an account for an address.
//
//flow:step retries=5 backoff=exponential(100ms,10s) fatal=ErrBadAddress catch=refuse
func (o *onboarding) createAccount(ctx context.Context, in Signup) (step.Next[onboarding, Profile], error) {
	account, err := o.site.reserve(ctx, in.Email)
	if err != nil {
		return step.Next[onboarding, Profile]{}, err
	}
	// Another step sends the mail with the token. The token is committed with the result of this
	// step, so all attempts of the other step send the same token.
	o.Email, o.Account, o.Token = in.Email, account, o.site.token()
	return o.goInvite("Please confirm your address"), nil
}

// invite sends a mail with the link. The machine then waits until the user follows the link.
//
//flow:step retries=5 backoff=exponential(100ms,10s) catch=refuse
func (o *onboarding) invite(ctx context.Context, subject string) (step.Next[onboarding, Profile], error) {
	if err := o.site.mail(ctx, o.Email, subject, o.Token); err != nil {
		return step.Next[onboarding, Profile]{}, err
	}
	return o.wait(), nil
}

func (o *onboarding) wait() step.Next[onboarding, Profile] {
	return o.awaitVerify(Clicked).OrAfter(o.site.patience, o.goRemind())
}

// remind chooses another mail as the next step, or gives up after four reminders.
//
//flow:step
func (o *onboarding) remind(context.Context) (step.Next[onboarding, Profile], error) {
	if o.Reminders++; o.Reminders > 4 {
		return o.goGiveUp(), nil
	}
	return o.goInvite("Please confirm your address, still"), nil
}

// verify compares the token of a click with the token of the mail.
//
//flow:step
func (o *onboarding) verify(ctx context.Context, click Click) (step.Next[onboarding, Profile], error) {
	o.site.note(ctx)
	if subtle.ConstantTimeCompare([]byte(click.Token), []byte(o.Token)) == 0 {
		return o.wait(), nil
	}
	return o.goWelcome().After(time.Millisecond), nil // The delay limits the rate of mails.
}

// welcome sends a mail that confirms the account.
//
//flow:step retries=5 backoff=exponential(100ms,10s)
func (o *onboarding) welcome(ctx context.Context) (step.Next[onboarding, Profile], error) {
	if err := o.site.mail(ctx, o.Email, "Welcome", ""); err != nil {
		return step.Next[onboarding, Profile]{}, err
	}
	return o.done(Profile{Email: o.Email, Account: o.Account, Reminders: o.Reminders}), nil
}

//flow:step
func (o *onboarding) giveUp(ctx context.Context) (step.Next[onboarding, Profile], error) {
	o.site.note(ctx)
	return o.done(Profile{Email: o.Email, Reminders: o.Reminders, Refused: "the address was not confirmed"}), nil
}

//flow:step
func (o *onboarding) refuse(ctx context.Context, why step.Failure) (step.Next[onboarding, Profile], error) {
	o.site.note(ctx)
	if errors.Is(why, ErrBadAddress) {
		return o.done(Profile{Refused: "nobody has such an address"}), nil
	}
	return o.done(Profile{Refused: why.Error()}), nil
}
