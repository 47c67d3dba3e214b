package flows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Signature is a report of the signing service.
type Signature struct {
	By string `json:"by"`
}

// Signed is the hook through which the signing service completes steps that wait for a signature.
var Signed = workflow.NewHook[Signature]("signed")

// askToSign sends a contract to the signing service. The step stays open until the service reports
// the signature. If there is no report within three days, the contract is sent again.
//
//flow:step timeout=72h retries=2
func askToSign(ctx context.Context, contract string) (Signature, error) {
	later, err := step.Later(ctx, Signed, workflow.Describe(workflow.HookMeta{Title: "Sign " + contract}))
	if err != nil {
		return Signature{}, err
	}
	slog.InfoContext(ctx, "please sign", "contract", contract, "token bytes", len(later.Token()))
	return later.Pending()
}

// signing returns the signer of a contract.
//
//flow:workflow
func signing(ctx workflow.Context, contract string) (string, error) {
	signature, err := AskToSign(ctx, contract)
	if err != nil {
		return "", err
	}
	return contract + " is signed by " + signature.By, nil
}

// ErrDeclined is returned if the signer has declined a contract.
//
//flow:error
var ErrDeclined = errors.New("declined")

// SignatureReport handles a report of the signing service.
func SignatureReport(ctx context.Context, client *workflow.Client, token, by string, declined bool) error {
	var err error
	if declined {
		err = Signed.Fail(ctx, client, token, step.Fatal(ErrDeclined)) // The step is not retried after this error.
	} else {
		err = Signed.Send(ctx, client, token, Signature{By: by})
	}
	if errors.Is(err, workflow.ErrHookAnswered) {
		return fmt.Errorf("somebody has said something else before: %w", err)
	}
	return err
}
