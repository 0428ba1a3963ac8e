from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import pytest

from tpgate.errors import ConfigError
from tpgate.trace.names import parse
from tpgate.trace.taxonomy import CATEGORIES, UNCLASSIFIED, classify, default, load

OWN = Path(__file__).parent / "kernel_names.tsv"
DATA = os.environ.get("TPGATE_DATA")
ROWS = [line.split("\t") for line in OWN.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(("category", "part", "name"), ROWS, ids=[f"{row[0]}-{n}" for n, row in enumerate(ROWS)])
def test_real_names(category, part, name):
    found = classify(name)
    assert found.name == category, found
    if part:
        assert found.part == part, found


def test_every_category_has_a_name_in_the_table():
    assert {row[0] for row in ROWS} == set(CATEGORIES)
    assert len(ROWS) >= 120


def test_switching_from_nccl_to_a_custom_all_reduce_stays_communication():
    for name in (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(RankData*)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(f::A)0, b, 4, true>(P)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<__nv_bfloat16>(void*)",
    ):
        assert classify(name).name == "communication"


def test_a_fused_kernel_says_what_else_it_does():
    assert "norm" in classify("allreduce_fusion_kernel_oneshot_lamport").fused
    assert "moe" in classify("moefinalize_allreduce_fusion_kernel_oneshot_lamport").fused
    assert "gemm" in classify("gemm_ag_gemv_kernel").fused


def test_the_parameter_list_and_enum_values_do_not_leak():
    name = "void flash::prepare_varlen_num_blocks_kernel<1, true>(int, int const*, cutlass::FastDivmod)"
    assert classify(name).name == "attention"
    store = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)"
    assert classify(store).name == "kv_cache"
    assert "Fp8" not in parse(store).body


def test_a_gemm_whose_template_names_attention_is_a_gemm():
    name = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<Shape, attention::Epilogue, flash_tag>>(P)"
    assert classify(name).name == "gemm"


def test_attention_inside_a_cutlass_wrapper_is_attention():
    name = (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
        "flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1> > > > > >(flash::Params)"
    )
    assert classify(name).name == "attention"
    assert parse(name).head.startswith("flash::FlashAttnFwdSm90")


def test_a_family_survives_a_rebuild():
    def family(name):
        return parse(name).family

    assert family("nvjet_tst_128x64_64x8_4x1_v_bz_TNT") == family("nvjet_tst_384x8_64x4_2x1_v_bz_TNT")
    assert family("triton_poi_fused_add_mul_3") == family("triton_poi_fused_add_mul_17")
    assert family("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)") == family(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    )
    assert family("_fwd_kernel_stage1") != family("_fwd_kernel_stage2")


def test_a_mangled_name_is_read_by_its_words():
    name = parse(
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib"
    )
    assert name.head == "aiter::add_rmsnorm_quant_kernel"


def test_a_name_that_nobody_knows_is_unclassified():
    assert classify("zorblax_kernel_v9").name == UNCLASSIFIED


def test_a_users_file_goes_first_and_changes_the_digest(tmp_path, monkeypatch):
    mine = tmp_path / "mine.toml"
    mine.write_text('[[rule]]\ncategory = "attention"\npart = "house"\nmatch = "zorblax"\nwhy = "our own kernel"\n')
    taxonomy = load(mine)
    assert taxonomy.classify("zorblax_kernel_v9").part == "house"
    assert taxonomy.digest != load().digest
    monkeypatch.setenv("TPGATE_TAXONOMY", str(mine))
    assert default().digest == taxonomy.digest


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[rule]]\ncategory = "attn"\nmatch = "a"\nwhy = "b"\n', "category 'attn'"),
        ('[[rule]]\ncategory = "gemm"\nmatch = "("\nwhy = "b"\n', "match:"),
        ('[[rule]]\ncategory = "gemm"\nmatch = "a"\n', "why is missing"),
        ('[[rule]]\ncategory = "gemm"\nmatch = "a"\nwhy = "b"\nregex = 1\n', "unknown keys regex"),
        ("[[rule]\n", "mine.toml"),
    ],
)
def test_a_wrong_rule_is_named_with_its_file(tmp_path, text, problem):
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    with pytest.raises(ConfigError, match=r"mine\.toml") as caught:
        load(mine)
    assert problem in str(caught.value)


@pytest.mark.skipif(not DATA, reason="TPGATE_DATA names no folder")
@pytest.mark.parametrize(
    ("category", "labels", "observed", "whole"),
    [
        ("communication", ("comm_",), (0.97, 0.97), (0.97, 0.93)),
        ("attention", ("attention",), (0.95, 0.9), (0.85, 0.85)),
        ("moe", ("moe_",), (0.93, 0.85), (0.85, 0.88)),
        ("gemm", ("gemm",), (0.92, 0.97), (0.9, 0.95)),
    ],
)
def test_recall_and_precision_on_the_collected_names(category, labels, observed, whole):
    with (Path(DATA) / "kernel-names.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for kept, floors in (([r for r in rows if r["evidence"] != "source"], observed), (rows, whole)):
        counts = Counter((r["category"].startswith(labels), classify(r["name"]).name == category) for r in kept)
        recall = counts[True, True] / (counts[True, True] + counts[True, False])
        precision = counts[True, True] / (counts[True, True] + counts[False, True])
        assert (recall >= floors[0], precision >= floors[1]) == (True, True), (recall, precision, len(kept))
