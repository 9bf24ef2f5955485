"""A small GPT-2 in the Trainer of Hugging Face, as its examples of language modelling train one."""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(Dataset):
    def __init__(self, samples, length, vocabulary):
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.randint(0, vocabulary, (samples, length), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8000)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--output-dir", default="hf_trainer_output")
    args = parser.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=args.vocabulary,
        n_positions=args.length,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    training_args = TrainingArguments(
        output_dir=args.output_dir,
        per_device_train_batch_size=args.batch_size,
        num_train_epochs=1,
        logging_steps=20,
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=training_args,
        train_dataset=Tokens(args.samples, args.length, args.vocabulary),
    )
    trainer.train()


if __name__ == "__main__":
    main()
