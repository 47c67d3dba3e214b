package failuregroup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Run lets five invoices fail, replaces the release by a fixed one, and retries the invoices.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	office := &Office{Rates: map[string]int64{"DE": 19}}
	stop := Work(ctx, client, office)
	defer func() { err = errors.Join(err, stop()) }()
	var ids []workflow.RunID
	for i := range 5 {
		run, err := Invoice.Start(ctx, client, Order{ID: fmt.Sprint("order-", i), Country: "CH", Cents: 1000})
		if err != nil {
			return err
		}
		if _, err := run.Result(ctx); !errors.Is(err, ErrNoRate) {
			return fmt.Errorf("order %d: %w", i, err)
		}
		ids = append(ids, run.ID())
	}

	service := admin.New(client).As(admin.Principal{Name: "ada", Role: admin.RoleOperator})
	failures, err := service.Failures(ctx, admin.FailureFilter{Workflow: Invoice.Name(), Open: true})
	if err != nil {
		return err
	}
	if len(failures.Groups) != 1 {
		return fmt.Errorf("%d groups of failures", len(failures.Groups))
	}
	group := failures.Groups[0]
	_, _ = fmt.Fprintf(out, "%d runs: %s: %s\n", group.Open, group.Place(), group.Message)

	if err := stop(); err != nil {
		return err
	}
	office.Rates["CH"] = 8 // The fixed release contains the missing tax rate.
	stop = Work(ctx, client, office)
	bulk, err := RetryGroup(ctx, service, group.Group, "there is a rate for Switzerland now")
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d retried, %d refused\n", bulk.Done, bulk.Refused)
	for i, id := range ids {
		info, err := client.Run(id).Info(ctx)
		if err != nil {
			return err
		}
		total, err := Invoice.Get(client, info.RetriedAs).Result(ctx)
		if err != nil || total != 1080 || office.Rendered(fmt.Sprint("order-", i)) != 1 {
			return fmt.Errorf("order %d costs %d (%w)", i, total, err)
		}
	}
	_, err = fmt.Fprintf(out, "%d invoices are rendered and taxed, each rendered once\n", len(ids))
	return err
}
