package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) start() *cobra.Command {
	var in admin.Start
	var input string
	var delay time.Duration
	var tags, attributes []string
	cmd := &cobra.Command{
		Use: "start WORKFLOW", Short: "Start a run of a workflow and print its id", Args: cobra.ExactArgs(1),
		Long: "Start starts a run of a workflow by its stored name. The input is a JSON object with the parameters by name. The options in the\n" +
			"directive of the workflow, such as its queue, limits and timeout, do not apply to the run: set them with flags.",
		Example:           "  flowctl start orders.fulfil -i '{\"order\":\"o-17\"}' --id order-17\n  flowctl start orders.fulfil -i @order.json",
		ValidArgsFunction: c.workflows,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			in.Workflow, in.DelayMs = args[0], delay.Milliseconds()
			if in.Input, err = c.payload(input); err != nil {
				return err
			}
			if in.Tags, err = tagsOf(tags); err != nil {
				return err
			}
			if in.Attributes, err = pairsOf("--attribute", "tenant=acme", attributes); err != nil {
				return err
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				got, err := s.Start(ctx, in)
				if err != nil {
					return err
				}
				r, known := s.Run(ctx, got.Run)
				unserved := known == nil && r.Unserved
				if c.jsonOut() {
					return c.print(started{got, unserved})
				}
				if unserved {
					fmt.Fprintf(c.Stderr, "no live worker serves workflow %s on queue %s: the run waits for one\n", clean(r.Workflow), clean(r.Queue))
				}
				if !got.Created {
					fmt.Fprintln(c.Stderr, "the run already exists")
				}
				_, err = fmt.Fprintln(c.Stdout, got.Run)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&input, "input", "i", "", "input: JSON, @FILE, or - for standard input")
	f.StringVar(&in.ID, "id", "", "workflow id")
	f.StringVar(&in.Policy, "policy", "", "policy if the id has an active run: "+strings.Join(admin.Policies(), ", ")+" (default use)")
	f.StringVar(&in.Finished, "finished", "", "policy if the id has an ended run: "+strings.Join(admin.FinishedPolicies(), ", ")+" (default allow)")
	f.StringVar(&in.Queue, "queue", "", "queue")
	f.DurationVar(&delay, "delay", 0, "delay the start of the run by this duration")
	f.BoolVar(&in.Hold, "hold", false, "hold the run until it is released")
	f.StringArrayVar(&tags, "tag", nil, "tag, as name=value; may be repeated")
	f.StringArrayVar(&attributes, "attribute", nil, "attribute, as key=value; may be repeated")
	f.StringVar(&in.Key, "key", "", "idempotency key: starts with the same key create one run; for starts without --id")
	c.why(cmd, &in.Reason)
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(admin.Policies(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("finished", cobra.FixedCompletions(admin.FinishedPolicies(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// started is the JSON output of flowctl start.
type started struct {
	admin.Started
	Unserved bool `json:"unserved,omitempty"` // no live worker serves the workflow
}

// maxInput is the maximum number of bytes that are read from a file or a pipe. No store accepts
// more.
const maxInput = 64 << 20

// payload returns the JSON that the user gave in a flag, in a file or by a pipe. It returns nil if
// there is none.
func (c *command) payload(given string) (admin.Payload, error) {
	var from io.Reader
	switch name, isFile := strings.CutPrefix(given, "@"); {
	case given == "-":
		from = c.Stdin
	case isFile:
		f, err := os.Open(name)
		if err != nil {
			return nil, &admin.InputError{What: "cannot read the JSON: " + err.Error(), Fix: "give the JSON itself, or @ and the name of a file"}
		}
		defer f.Close()
		from = f
	default:
		return admin.Payload(given), nil
	}
	b, err := io.ReadAll(io.LimitReader(from, maxInput))
	return admin.Payload(b), err
}

// tagsOf parses tags that have the form name=value.
func tagsOf(given []string) (map[string]string, error) { return pairsOf("--tag", "region=eu", given) }

// pairsOf parses the values of a flag that have the form name=value.
func pairsOf(flag, example string, given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	pairs := map[string]string{}
	for _, pair := range given {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, &admin.InputError{What: fmt.Sprintf("%s %q does not have the form name=value", flag, pair), Fix: "write " + flag + " " + example}
		}
		pairs[name] = value
	}
	return pairs, nil
}

func (c *command) send() *cobra.Command {
	var m admin.Message
	cmd := &cobra.Command{
		Use: "send RUN TOPIC JSON", Short: "Send a message to a run", Args: cobra.ExactArgs(3), ValidArgsFunction: c.ids,
		Example: "  flowctl send id:order-17 approval '{\"approved\":true}'",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if m.Payload, err = c.payload(args[2]); err != nil {
				return err
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				got, err := s.Send(ctx, args[0], args[1], m)
				if err != nil || !c.jsonOut() {
					return err
				}
				return c.print(got)
			})
		},
	}
	cmd.Flags().StringVar(&m.Key, "key", "", "idempotency key: messages with the same key are delivered once")
	c.why(cmd, &m.Reason)
	return cmd
}

func (c *command) ask() *cobra.Command {
	var m admin.Message
	cmd := &cobra.Command{
		Use: "ask RUN NAME JSON", Short: "Send a question to a run and print the answer", Args: cobra.ExactArgs(3), ValidArgsFunction: c.ids,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if m.Payload, err = c.payload(args[2]); err != nil {
				return err
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				got, err := s.Ask(ctx, args[0], args[1], m)
				if err != nil {
					return err
				}
				return c.printPayload(got, got.Payload)
			})
		},
	}
	cmd.Flags().StringVar(&m.Key, "key", "", "idempotency key: a repeated question with the same key gets the same answer")
	c.why(cmd, &m.Reason)
	return cmd
}

func (c *command) value() *cobra.Command {
	return &cobra.Command{
		Use: "value RUN NAME", Short: "Print the current value that a run has published", Args: cobra.ExactArgs(2), ValidArgsFunction: c.ids,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				got, err := s.Value(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				if !got.Set {
					fmt.Fprintln(c.Stderr, "the value has not been set")
				}
				return c.printPayload(got, got.Value)
			})
		},
	}
}

// printPayload prints a payload. With JSON output it prints whole, which contains the payload.
func (c *command) printPayload(whole any, p json.RawMessage) error {
	if c.jsonOut() {
		return c.print(whole)
	}
	if len(p) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(c.Stdout, clean(string(p)))
	return err
}
