# lightloom: gpt2-355m on dgx-h100-64, 16 ranks: dp 16 · fsdp · synthesized, 512 samples
# collectives run synthesized; which algorithm runs is the communication library's choice
# source this file, then: torchrun ... pretrain_gpt.py "${MEGATRON_ARGS[@]}"   (16 ranks)
MEGATRON_ARGS=(
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 1
  --micro-batch-size 32
  --global-batch-size 512
  --seq-length 1024
  --use-megatron-fsdp
  --data-parallel-sharding-strategy optim_grads_params
  --use-distributed-optimizer
  --no-gradient-accumulation-fusion
  --ckpt-format fsdp_dtensor
  --bf16
)
