"""The order of parameters that may be given by position.

Source: signatures of torch 2.15. A parameter that is keyword-only is not listed.
"""

from __future__ import annotations

ORDER: dict[str, tuple[str, ...]] = {
    name: tuple(parameters.split())
    for name, parameters in {
        "DataLoader": "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory "
        "drop_last timeout worker_init_fn multiprocessing_context generator",
        "Adam": "params lr betas eps weight_decay amsgrad",
        "AdamW": "params lr betas eps weight_decay amsgrad",
        "ASGD": "params lr lambd alpha t0 weight_decay foreach maximize differentiable",
        "Adadelta": "params lr rho eps weight_decay foreach",
        "Adafactor": "params lr beta2_decay eps d weight_decay",
        "Adagrad": "params lr lr_decay weight_decay initial_accumulator_value eps foreach",
        "Adamax": "params lr betas eps weight_decay foreach",
        "LBFGS": "params lr max_iter max_eval tolerance_grad tolerance_change history_size",
        "NAdam": "params lr betas eps weight_decay momentum_decay decoupled_weight_decay",
        "RAdam": "params lr betas eps weight_decay decoupled_weight_decay",
        "RMSprop": "params lr alpha eps weight_decay momentum centered capturable",
        "Rprop": "params lr etas step_sizes",
        "SGD": "params lr momentum dampening weight_decay nesterov",
        "SparseAdam": "params lr betas eps maximize",
        "zero_grad": "set_to_none",
        "TrainingArguments": "output_dir",
        "Seq2SeqTrainingArguments": "output_dir",
        "DistributedDataParallel": "module device_ids output_device dim broadcast_buffers init_sync "
        "process_group bucket_cap_mb find_unused_parameters check_reduction gradient_as_bucket_view "
        "static_graph",
    }.items()
}
"""By class or method. What is not here has no known order: there only keywords can be set."""
